-- give_campaign(path, owner): makes somebody the owner of a campaign and all below it.
--
-- Result: how many campaigns had another owner, or none. Error TQ404: no such campaign. Error TQ400: a name has
--     1 to 100 characters.
--
-- No quota refuses this: existing tasks and files stay, as if the new owner had made them.
--
-- Locks: one against set_quota() for the new owner, shared; the campaigns that change.
-- Index: campaign_path_key, quota_pkey.
-- @roles operator
-- @gateway no
-- @act give
create or replace function taskq.give_campaign(p_path text, p_owner text)
returns integer
language plpgsql
as $$
declare
    v_campaigns bigint[];
begin
    perform taskq.demand_read_committed();
    perform taskq.campaign_id(p_path);
    if (length(p_owner) between 1 and 100) is not true then
        raise exception 'the name of an owner has 1 to 100 characters' using errcode = 'TQ400';
    end if;
    perform pg_advisory_xact_lock_shared(-3, hashtext(p_owner));
    v_campaigns := array(
        select c.campaign_id
          from taskq.campaign c
         where c.campaign_id in (select s.campaign_id from taskq.subtree(p_path) s)
           and c.owner is distinct from p_owner
         order by c.campaign_id
           for no key update);
    update taskq.campaign c
       set owner = p_owner,
           running_quota = taskq.running_quota(p_owner)
     where c.campaign_id = any (v_campaigns);
    if cardinality(v_campaigns) > 0 then
        perform taskq.note_act(p_path, 'give', array[p_owner]);
    end if;
    return cardinality(v_campaigns);
end
$$;
