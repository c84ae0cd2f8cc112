-- unfinished_campaigns(path): the campaigns at and below a path in which tasks are unfinished. A part of
-- servable() and claimable(); not for clients.
--
-- unfinished: tasks that wait, are delayed or are worked on. room: how many could be claimed now by
--     an agent that suits the campaign; 0 unless it is open with all above it and has a handler.
--     ahead: how many wait in the lists of the front, by about a third; they are not among those that
--     are working, since nobody works on them. revision, has_handler, paused_why, owner: the campaign's.
--     owner_room: how many more tasks of its owner may run, in all campaigns; null: any number. No campaign's
--     room exceeds that, but several together may. named_limits: the campaign's, limit_room: how many more starts
--     they allow, in the same way; see limit_room().
-- Result: nothing if there is no such campaign. Exact within the snapshot: counter plus deltas.
--
-- Reads no task. Of all campaigns, or a subtree of 1,000 and more, it reads those with unfinished tasks alone, see
-- unfinished_ids(). For what else it costs see counts().
-- Index: campaign_path_key, campaign_pkey, campaign_closed, campaign_owner, counter_pkey, counter_unfinished,
-- delta_xid.
--
-- The settings leave one plan: the counters are found by one pass over their ids (servers from 17 on
-- do that faster than one by one), all else is joined by hash.
-- @plan generic by-scan
create or replace function taskq.unfinished_campaigns(p_path text)
returns table (
    campaign_id bigint,
    weight double precision,
    requires text[],
    time_limit_s double precision,
    working bigint,
    unfinished bigint,
    room bigint,
    ahead bigint,
    revision integer,
    has_handler boolean,
    paused_why text,
    owner text,
    owner_room bigint,
    named_limits text[],
    limit_room bigint
)
language plpgsql stable
set enable_mergejoin = off
as $$
declare
    v_open boolean;
    v_closed bigint[];
    v_ids constant bigint[] := taskq.unfinished_ids(p_path);
begin
    select taskq.campaign_state(c.campaign_id) = 'open' into v_open
      from taskq.campaign c
     where c.path = p_path;
    if not found then
        return;
    end if;
    select c.paused || c.cancelled || c.archived into v_closed from taskq.closed_campaigns(p_path) c;

    return query
        with below as materialized (
            select c.campaign_id, c.weight, c.requires, c.time_limit_s, c.max_running, c.revision,
                   c.handler is not null as has_handler, c.paused_why, c.owner, c.running_quota, c.named_limits,
                   v_open and c.status = 'open' and c.handler is not null
                   and (c.lineage && v_closed) is not true as open
              from (
                  select s.* from taskq.subtree(p_path) s where v_ids is null
                   union all
                  select s.*
                    from taskq.campaign s
                   where s.campaign_id = any (v_ids)
                     and taskq.at_or_below(s.path, p_path)
              ) c
        ), fresh as (
            select d.campaign_id, taskq.total(d.waiting) as waiting,
                   taskq.total(d.delayed) as delayed, taskq.total(d.working) as working
              from taskq.unfolded() d
             group by d.campaign_id
        ), ahead as (
            -- What waits in the lists of the front can be claimed as well.
            select l.campaign_id, l.entries
              from taskq.front_list l
             where exists (
                 select from taskq.front_refiller r where r.only_one and r.until > clock_timestamp())
        ), own as materialized (
            -- All campaigns of owners with a quota, wherever they are: one pass for all owners.
            select c.campaign_id, c.owner, c.running_quota
              from (
                  select s.* from taskq.campaign s
                   where v_ids is null
                     and s.owner = any (array(
                             select distinct b.owner from below b where b.running_quota is not null))
                   union all
                  select s.*
                    from unnest(
                             case when exists (select from below b where b.running_quota is not null)
                                  then v_ids end) as u (campaign_id)
                   cross join lateral taskq.campaign_of(u.campaign_id) s
                   where s.owner in (select b.owner from below b where b.running_quota is not null)
              ) c
        ), bounded as materialized (
            select w.owner, greatest(0, min(w.running_quota) - taskq.total(w.working)) as room
              from (
                  select o.owner, o.running_quota, n.working
                    from own o
                    join taskq.counter n on n.campaign_id = o.campaign_id
                   where n.campaign_id = any (array(select o.campaign_id from own o))
                   union all
                  select o.owner, o.running_quota, f.working
                    from own o
                    join fresh f on f.campaign_id = o.campaign_id
              ) w
             group by w.owner
        ), named as materialized (
            select r.name, r.room
              from taskq.limit_rooms() r
             where exists (select from below b where b.named_limits <> '{}')
        ), counted as (
            select b.*, coalesce(a.entries, 0) as ahead, o.room as owner_room,
                   case when b.named_limits <> '{}'
                        then (select greatest(0, min(n.room)) from named n where n.name = any (b.named_limits))
                   end as limit_room,
                   n.waiting + coalesce(f.waiting, 0) as waiting,
                   n.delayed + coalesce(f.delayed, 0) as delayed,
                   n.working + coalesce(f.working, 0) as working
              from below b
              join taskq.counter n on n.campaign_id = b.campaign_id
              left join fresh f on f.campaign_id = b.campaign_id
              left join ahead a on a.campaign_id = b.campaign_id
              left join bounded o on o.owner = b.owner
             where n.campaign_id = any (array(select b.campaign_id from below b))
        )
        select c.campaign_id, c.weight, c.requires, c.time_limit_s,
               greatest(0, c.working - c.ahead),
               c.waiting + c.delayed + c.working,
               case when c.open
                    then greatest(0, least(c.waiting, c.max_running - c.working, c.owner_room, c.limit_room))
                    else 0 end,
               case when c.open then c.ahead else 0 end::bigint,
               c.revision, c.has_handler, c.paused_why, c.owner, c.owner_room,
               c.named_limits, c.limit_room
          from counted c
         where c.waiting + c.delayed + c.working > 0;
end
$$;
