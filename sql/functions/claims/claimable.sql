-- claimable(servings, front): how many tasks agents could claim now, and agents of which scopes.
--
-- servings: the scopes, as a JSON array of {"path", "lifetime_s", "offers", "without"}; see
--     servable(). without: array of [campaign, revision], or missing: campaigns that are left out as
--     long as they have this revision.
-- front: whether the agents can also claim tasks in the lists of the front.
-- claimable: JSON array of [numbers of scopes, tasks]: so many tasks can be claimed by agents of
--     each of these scopes, and of no other. Each task is in one of these counts only, even if
--     several scopes include it. Scopes are numbered from 0.
-- unfinished: for each scope, in order, the tasks at and below its path that are waiting, delayed or
--     working and that an agent of the scope could claim now or later: see servable_ever(); 0 if
--     the campaign does not exist (any more).
-- Error TQ400: the argument is not of this form.
--
-- Campaigns with the same scopes and the same requirements are grouped before they are matched with
-- agents: there are few kinds of campaigns, and few kinds of agents.
--
-- Reads no task. It calls unfinished_campaigns(), which states its cost, once for each path.
-- @roles gateway
-- @plan generic no-jit
create or replace function taskq.claimable(
    p_servings jsonb,
    p_front boolean default false,
    out claimable jsonb,
    out unfinished bigint[]
)
language plpgsql stable
as $$
begin
    with asked as materialized (
        select s.number - 1 as number,
               s.one ->> 'path' as path,
               (s.one ->> 'lifetime_s')::double precision as lifetime_s,
               array(select jsonb_array_elements_text(s.one -> 'offers')) as offers,
               array(
                   select format('%s:%s', w ->> 0, w ->> 1)
                     from jsonb_array_elements(s.one -> 'without') w) as without
          from jsonb_array_elements(p_servings) with ordinality as s (one, number)
    ), found as materialized (
        select p.path, s.*
          from (select distinct a.path from asked a) p
         cross join lateral taskq.unfinished_campaigns(p.path) s
    ), campaign as (
        select array_agg(f.path order by f.path) as paths, f.time_limit_s, f.requires,
               max(f.room + case when p_front then f.ahead else 0 end) as room,
               f.owner, min(f.owner_room) as owner_room, f.named_limits, min(f.limit_room) as limit_room,
               case when format('%s:%s', f.campaign_id, f.revision) in (
                             select unnest(a.without) from asked a)
                    then format('%s:%s', f.campaign_id, f.revision) end as named
          from found f
         where f.room > 0 or p_front and f.ahead > 0
         group by f.campaign_id, f.revision, f.time_limit_s, f.requires, f.owner, f.named_limits
    ), kind as (
        select c.paths, c.time_limit_s, c.requires, c.named, taskq.total(c.room) as room
          from (
              -- All campaigns of an owner, or with the same limits, together have no more room than these.
              select c.paths, c.time_limit_s, c.requires, c.named,
                     least(taskq.total(c.room), min(c.owner_room), min(c.limit_room)) as room
                from campaign c
               group by c.paths, c.time_limit_s, c.requires, c.named,
                        case when c.owner_room is not null then c.owner end, c.named_limits
          ) c
         group by c.paths, c.time_limit_s, c.requires, c.named
    ), reached as (
        select array(
                   select a.number
                     from asked a
                    where a.path = any (k.paths)
                      and (k.named = any (a.without)) is not true
                      and taskq.suits(k.time_limit_s, k.requires, a.lifetime_s, a.offers)
                    order by a.number) as servings,
               k.room
          from kind k
    ), rest as materialized (
        select f.path, f.has_handler, f.paused_why is not null as paused, f.requires,
               taskq.total(f.unfinished) as unfinished
          from found f
         group by f.path, f.has_handler, f.paused_why is not null, f.requires
    )
    select coalesce(jsonb_agg(jsonb_build_array(to_jsonb(r.servings), r.tasks)), '[]'),
           array(
               select coalesce((
                          select taskq.total(u.unfinished)
                            from rest u
                           where u.path = a.path
                             and taskq.servable_ever(
                                 u.has_handler, case when u.paused then '' end, u.requires,
                                 a.offers)), 0)
                 from asked a
                order by a.number)
      into claimable, unfinished
      from (select r.servings, taskq.total(r.room) as tasks
              from reached r
             where cardinality(r.servings) > 0
             group by r.servings) r;
exception
    when data_exception then
        raise exception 'the argument is not of the form that claimable() takes: %', sqlerrm
            using errcode = 'TQ400';
end
$$;
