-- sharing_campaigns(scope, most): what decides when the campaigns at and below a path end that have unfinished tasks:
-- how they share slots, and what is left.
--
-- is_open: whether tasks are handed out: open with all above it, and with a handler. waiting: delayed ones included.
--     working: not those that wait in lists of the front, which are waiting. ended, tried: tasks that are done or
--     failed, and attempts that ended, without what moved within twenty seconds. owner_weight: null unless owners
--     share first; owner_most: tasks of the owner that may run. caps, cap_mosts: the named limits that exist.
--     has_below: whether there are campaigns below it.
-- Result: those with most working tasks, then most unfinished ones, at most `most`; nothing if there is no such campaign.
--
-- Reads no task; costs what unfinished_campaigns() does. Index: those there, campaign_parent, quota_pkey,
-- named_limit_pkey.
-- @roles all
-- @standby yes
-- @gateway manager, quiet
-- @plan generic by-key
create or replace function taskq.sharing_campaigns(p_scope text, p_most integer)
returns table (
    campaign_id bigint,
    is_open boolean,
    waiting bigint,
    working bigint,
    ended bigint,
    tried bigint,
    weight double precision,
    owner text,
    owner_weight double precision,
    owner_most integer,
    most integer,
    site_most integer,
    caps text[],
    cap_mosts integer[],
    batch integer,
    backoff_s double precision,
    has_below boolean
)
language plpgsql stable
as $$
declare
    v_by_owner constant boolean := (select h.by_owner from taskq.sharing h);
begin
    return query
        select u.campaign_id, c.handler is not null and taskq.campaign_state(u.campaign_id) = 'open',
               greatest(0, u.unfinished - u.working), u.working, n.done + n.failed, n.done + n.failures + n.losses,
               u.weight, coalesce(u.owner, ''),
               case when v_by_owner
                    then coalesce((select q.weight from taskq.quota q where q.owner = u.owner), 1) end,
               c.running_quota, c.running_limit, c.max_running_per_site, l.caps, l.mosts,
               coalesce((c.handler ->> 'batch')::integer, 1), c.backoff_s,
               -- Not `exists`, which may be answered from a list of all parents.
               coalesce((select true from taskq.campaign b where b.parent_id = u.campaign_id limit 1), false)
          from (
              select s.*
                from taskq.unfinished_campaigns(p_scope) s
               order by s.working desc, s.unfinished desc, s.campaign_id
               limit p_most
          ) u
         cross join lateral taskq.campaign_of(u.campaign_id) c
         cross join lateral taskq.counter_of(u.campaign_id) n
         cross join lateral (
             select coalesce(array_agg(k.name order by k.name), '{}') as caps,
                    coalesce(array_agg(k.most order by k.name), '{}') as mosts
               from taskq.named_limit k
              where k.name = any (u.named_limits)
         ) l;
end
$$;
