-- room_to_run(campaign, limit, freed): how many more tasks of a campaign may run, if it limits them or its owner has
-- a quota. A part of take(); not for clients.
--
-- limit: the campaign's max_running. freed: how many this transaction has ended without having recorded it.
-- Result: 0 also if nothing waits, so that a claim that can get nothing does not count running tasks.
--
-- Limit and quota hold exactly. Claims of the campaign, and of all campaigns of an owner with a quota, wait for each
-- other, from here to their commit. Each counts what runs in a snapshot taken after the wait, which sees all that was
-- claimed before; it may see the end of a task late, never early. Campaigns without a limit never come here.
--
-- Locks: the campaign's, then the owner's; a transaction claims in one campaign.
create or replace function taskq.room_to_run(p_campaign bigint, p_limit integer, p_freed integer)
returns integer
language plpgsql
as $$
declare
    v_owner text;
    v_quota integer;
    v_working bigint;
    v_waiting bigint;
    v_room bigint;
begin
    perform pg_advisory_xact_lock(hashtext('taskq.room'), hashint8(p_campaign));

    select c.working + coalesce(u.working, 0), c.waiting + coalesce(u.waiting, 0),
           o.owner, o.running_quota
      into v_working, v_waiting, v_owner, v_quota
      from taskq.counter c
      join taskq.campaign o on o.campaign_id = c.campaign_id
     cross join lateral (
         select sum(d.working) as working, sum(d.waiting) as waiting
           from taskq.unfolded() d
          where d.campaign_id = p_campaign
         offset 0
     ) u
     where c.campaign_id = p_campaign;
    if v_waiting <= 0 and p_freed = 0 then  -- what this transaction has ended may wait again
        return 0;
    end if;
    v_room := p_limit - (v_working - p_freed);
    if v_quota is not null and v_room > 0 then
        perform pg_advisory_xact_lock(-1, hashtext(v_owner));
        v_room := least(v_room, v_quota - ((select o.working from taskq.tasks_of_owner(v_owner) o) - p_freed));
    end if;
    return greatest(0, v_room);
end
$$;
