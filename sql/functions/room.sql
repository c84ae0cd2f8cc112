-- room(campaign, limit, freed): how many more tasks of a campaign may run, for a campaign that limits
-- that. A part of take(); not for clients.
--
-- freed: how many this transaction has ended without having recorded it.
-- Error TQ400: not under read committed.
--
-- The limit holds exactly: claims of the campaign wait for each other, from here to their commit, and
-- count what runs in a snapshot taken after the wait, which sees all that was claimed before. What
-- ends meanwhile is seen late, never early. Campaigns without a limit never come here.
create or replace function taskq.room(p_campaign bigint, p_limit integer, p_freed integer)
returns integer
language plpgsql
as $$
declare
    v_working bigint;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'campaign % limits how many tasks run: claim under read committed', p_campaign
            using errcode = 'TQ400';
    end if;
    perform pg_advisory_xact_lock(hashtextextended('taskq.room', p_campaign));

    select c.working + coalesce((
               select sum(d.working)
                 from taskq.unfolded() d
                where d.campaign_id = p_campaign), 0)
      into v_working
      from taskq.counter c
     where c.campaign_id = p_campaign;
    return greatest(0, p_limit - (v_working - p_freed));
end
$$;
