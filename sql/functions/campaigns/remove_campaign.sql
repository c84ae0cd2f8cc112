-- remove_campaign(path): deletes a campaign that has neither tasks nor campaigns below it.
--
-- Error TQ404: no such campaign. Error TQ409: it is not empty, or it is the root.
--
-- Locks: the campaign's row; its deltas before its counter, as in fold().
-- @roles manager operator
-- @gateway submitter
-- @repeat once
-- @plan generic by-key
create or replace function taskq.remove_campaign(p_path text)
returns void
language plpgsql
as $$
declare
    v_id constant bigint := taskq.campaign_id(p_path);
begin
    perform from taskq.campaign c where c.campaign_id = v_id for update;
    if p_path = '/'
       or exists (select from taskq.campaign c where c.parent_id = v_id)
       or exists (select from taskq.spec s where s.campaign_id = v_id)
       or exists (select from taskq.task t where t.campaign_id = v_id)
       or exists (select from taskq.span s where s.campaign_id = v_id)
       or exists (select from taskq.bundle b where b.campaign_id = v_id)
    then
        raise exception 'campaign % is not empty: remove its tasks and the campaigns below it first', p_path
            using errcode = 'TQ409';
    end if;
    delete from taskq.delta d where d.campaign_id = v_id;
    delete from taskq.counter c where c.campaign_id = v_id;
    delete from taskq.pulse p where p.campaign_id = v_id;
    update taskq.result_index i set dropped = true where i.campaign_id = v_id and not i.dropped;
    delete from taskq.trend t where t.campaign_id = v_id;
    delete from taskq.refusal r where r.campaign_id = v_id;
    delete from taskq.refused r where r.campaign_id = v_id;
    delete from taskq.site_claim k where k.campaign_id = v_id;
    delete from taskq.argument a where a.campaign_id = v_id;
    delete from taskq.output_use u where u.campaign_id = v_id and u.token_id = -1;
    delete from taskq.campaign c where c.campaign_id = v_id;
end
$$;
