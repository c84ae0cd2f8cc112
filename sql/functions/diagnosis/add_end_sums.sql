-- add_end_sums(grain, sums): adds to the rows of `end_sum`. A part of add_ends() and thin_end_sums(); not for clients.
--
-- A campaign has 24 sorts of ends in a time; the attempts of others count as `other`. A time has 5,000 rows; what does
-- not fit, counts without host, site and release. Hosts where attempts fail come first. Agents name their hosts, and
-- programs their errors; nothing is lost.
--
-- Locks: the rows that it changes, in the order of their key. Index: end_sum_pkey.
-- @plan by-one-key
create or replace function taskq.add_end_sums(p_grain text, p_sums taskq.end_sum[])
returns void
language plpgsql
as $$
declare
    v_most_sorts constant integer := 24;
    v_most constant integer := 5000;
begin
    with given as materialized (
        select g.* from unnest(p_sums) as g
    ), sorts as materialized (
        select d.since, d.campaign_id,
               array(select distinct s.sort
                       from taskq.end_sum s
                      where s.since = d.since
                        and s.grain = p_grain
                        and s.campaign_id = d.campaign_id) as known
          from (select distinct g.since, g.campaign_id from given g) d
    ), named as (
        select g.*, k.known, g.sort = any (k.known) as is_known,
               dense_rank() over (
                   partition by g.since, g.campaign_id, g.sort = any (k.known) order by g.sort) as place
          from given g
          join sorts k on k.since = g.since and k.campaign_id = g.campaign_id
    ), sorted as materialized (
        select n.*,
               case when n.is_known or cardinality(n.known) + n.place < v_most_sorts then n.sort else 'other' end
                   as its_sort
          from named n
    ), times as materialized (
        select d.since,
               (select count(*) from taskq.end_sum s where s.since = d.since and s.grain = p_grain) as number
          from (select distinct g.since from given g) d
    ), there as (
        select s.*,
               exists (
                   select
                     from taskq.end_sum e
                    where e.since = s.since
                      and e.grain = p_grain
                      and e.campaign_id = s.campaign_id
                      and e.host = s.host
                      and e.site = s.site
                      and e.release = s.release
                      and e.outcome = s.outcome
                      and e.sort = s.its_sort
                   offset 0) as is_there
          from sorted s
    ), placed as (
        select t.*, m.number,
               row_number() over (
                   partition by t.since, t.is_there
                   order by t.outcome in ('done', 'released', 'cancelled'), t.attempts desc, t.host) as place_in_time
          from there t
          join times m on m.since = t.since
    ), kept as (
        select p.*, p.is_there or p.number + p.place_in_time <= v_most as is_kept from placed p
    )
    insert into taskq.end_sum as s
    select k.since, p_grain, k.campaign_id, case when k.is_kept then k.host else '' end as host,
           case when k.is_kept then k.site else '' end as site,
           case when k.is_kept then k.release else '' end as release, k.outcome, k.its_sort,
           taskq.total(k.attempts), taskq.total(k.run_ms), taskq.total(k.core_ms), sum(k.logs), sum(k.squares),
           taskq.total(k.numbers), sum(k.number_sum), sum(k.number_squares), min(k.first_task), max(k.last_task),
           min(k.first_at), max(k.last_at)
      from kept k
     group by 1, 2, 3, 4, 5, 6, 7, 8
     order by 1, 2, 3, 4, 5, 6, 7, 8
        on conflict (since, grain, campaign_id, host, site, release, outcome, sort) do update
       set attempts = s.attempts + excluded.attempts,
           run_ms = s.run_ms + excluded.run_ms,
           core_ms = s.core_ms + excluded.core_ms,
           logs = s.logs + excluded.logs,
           squares = s.squares + excluded.squares,
           numbers = s.numbers + excluded.numbers,
           number_sum = s.number_sum + excluded.number_sum,
           number_squares = s.number_squares + excluded.number_squares,
           first_task = least(s.first_task, excluded.first_task),
           last_task = greatest(s.last_task, excluded.last_task),
           first_at = least(s.first_at, excluded.first_at),
           last_at = greatest(s.last_at, excluded.last_at);
end
$$;
