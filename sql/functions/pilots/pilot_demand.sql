-- pilot_demand(path, offers, lifetime_s): the tasks that wait at and below a path, and whether agents with
-- these tags and this lifetime could serve them.
--
-- Result: a row for each campaign with unfinished tasks, most claimable first.
--     claimable: tasks that could be claimed now, those in the lists of the front among them; 0 unless it is
--     open with all above it, has a handler and is below its limit of running tasks. working: working tasks.
--     usual_s: how long its attempts take on average, see usual_run(), or all tasks of a start, of the hundred
--     campaigns in which most can be claimed; null: none has ended. tags_suit, time_suits: whether the tags are those
--     that it requires, and
--     its time limit is no longer than the lifetime. batch: how many of its tasks begin together in a slot.
--     memory: bytes that a start needs by what the campaign says or has learnt; retry_memory: that a task needs which
--     has run out of memory, see learnt_sizes(): of learnt sizes what all needed; null: unknown.
-- Error TQ404: no such campaign.
--
-- Reads no task; costs what unfinished_campaigns() and usual_run() do.
-- @roles reader
-- @standby no
-- @gateway manager
-- @repeat safe
-- @plan no-jit
create or replace function taskq.pilot_demand(
    p_path text,
    p_offers text[],
    p_lifetime_s double precision
)
returns table (
    campaign_id bigint,
    path text,
    claimable bigint,
    working bigint,
    unfinished bigint,
    usual_s double precision,
    time_limit_s double precision,
    requires text[],
    tags_suit boolean,
    time_suits boolean,
    batch integer,
    memory bigint,
    retry_memory bigint
)
language plpgsql stable
as $$
declare
    v_learnt constant integer := 100;
    v_attempts constant integer := 100;
begin
    perform taskq.campaign_id(p_path);
    return query
        with ranked as materialized (
            select s.campaign_id, s.room + s.ahead as claimable, s.working, s.unfinished,
                   s.time_limit_s, s.requires,
                   row_number() over (order by s.room + s.ahead desc, s.campaign_id) as place
              from (
                  -- The room that the owner's quota or named limits leave goes to the first of the campaigns that
                  -- are alike.
                  select s.campaign_id, s.ahead, s.working, s.unfinished, s.time_limit_s, s.requires,
                         case when least(s.owner_room, s.limit_room) is null then s.room
                              else greatest(0, least(
                                  s.room,
                                  least(s.owner_room, s.limit_room) + s.room - taskq.total(s.room) over (
                                      partition by case when s.owner_room is not null then s.owner end,
                                                   s.named_limits, s.requires, s.time_limit_s
                                      order by s.room desc, s.campaign_id)))
                         end as room
                    from taskq.unfinished_campaigns(p_path) s
              ) s
        )
        select r.campaign_id, c.path, r.claimable, r.working, r.unfinished,
               case when r.place <= v_learnt
                    then (select u.mean_s * least(u.batch, greatest(1, r.claimable))
                            from taskq.usual_run(r.campaign_id, v_attempts) u) end,
               r.time_limit_s, r.requires,
               taskq.suits(null, r.requires, null, p_offers),
               taskq.suits(r.time_limit_s, '{}', p_lifetime_s, p_offers),
               coalesce((c.handler ->> 'batch')::integer, 1),
               c.memory[1],
               case when c.memory_learns then coalesce(c.memory[2], c.memory[1])
                    else c.memory[cardinality(c.memory)] end
          from ranked r
         cross join lateral taskq.campaign_of(r.campaign_id) c
         order by r.place;
end
$$;
