-- failure_causes(campaign, limit): groups of attempts that failed, were lost or were refused, by cause; most
-- frequent first, `limit` at most.
--
-- error_class, cause: what the attempts of a group share: the class, and the message without its numbers, see
--     cause(). If that says no more than how the program ended (exit-1), also the last line of its output.
--     causes: how many groups there are. last_at: when the latest attempt ended; it is the example, with its
--     task, message and last line of output. hosts: how many hosts; some_hosts: the five with most attempts
--     of the group, with their numbers, as a JSON object in that order.
--
-- Reads only unsuccessful attempts of the campaign. Plans: see tasks().
-- Index: attempt_unsuccessful, session_pkey, spec_pkey, attempt_pkey.
-- @roles reader
-- @standby yes
-- @gateway manager
-- @plan generic by-key
create or replace function taskq.failure_causes(p_campaign bigint, p_limit integer)
returns table (
    error_class text,
    cause text,
    attempts bigint,
    tasks bigint,
    causes bigint,
    last_at timestamptz,
    hosts bigint,
    some_hosts json,
    example_task bigint,
    example_key text,
    example_error text,
    example_line text
)
language plpgsql stable
as $$
begin
    return query
        with failed as materialized (
            select coalesce(a.error_class, '') as error_class,
                   case when a.error_class ~ '^(exit|signal)-'
                        then concat_ws(
                                 ': ', taskq.cause(a.error),
                                 nullif(taskq.cause(taskq.last_line(a.tail)), ''))
                        else taskq.cause(a.error) end as cause,
                   a.task_id, a.attempt, a.session_id, a.ended_at
              from taskq.attempt a
             where a.campaign_id = p_campaign
               and (a.outcome in ('failed', 'lost') or a.refused)
               and a.outcome <> 'done'
             order by a.campaign_id, a.error_class, a.task_id
        ), grouped as (
            select f.error_class, f.cause, count(*) as attempts, count(distinct f.task_id) as tasks,
                   max(array[(extract(epoch from f.ended_at) * 1000000)::bigint, f.task_id, f.attempt])
                       as latest
              from failed f
             group by f.error_class, f.cause
        ), shown as materialized (
            select g.*, count(*) over () as causes
              from grouped g
             order by g.attempts desc, g.error_class, g.cause
             limit p_limit
        ), placed as (
            select f.error_class, f.cause, f.session_id, count(*) as attempts
              from failed f
             group by f.error_class, f.cause, f.session_id
        ), hosted as materialized (
            select p.error_class, p.cause, n.host, taskq.total(p.attempts) as attempts
              from placed p
             cross join lateral taskq.session_of(p.session_id) n
             group by p.error_class, p.cause, n.host
        )
        select g.error_class, g.cause, g.attempts, g.tasks, g.causes, a.ended_at, h.hosts,
               h.some_hosts, g.latest[2], s.key, a.error, taskq.last_line(a.tail)
          from shown g
         cross join lateral (
             select count(*) as hosts,
                    json_object_agg(o.host, o.attempts order by o.place) filter (where o.place <= 5)
                        as some_hosts
               from (
                   select h.host, h.attempts,
                          row_number() over (order by h.attempts desc, h.host) as place
                     from hosted h
                    where h.error_class = g.error_class
                      and h.cause = g.cause
               ) o
         ) h
         cross join lateral taskq.attempt_of(p_campaign, g.latest[2], g.latest[3]::integer) a
         cross join lateral taskq.spec_of(p_campaign, g.latest[2]) s
         order by g.attempts desc, g.error_class, g.cause;
end
$$;
