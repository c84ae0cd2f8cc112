-- seed_begin(campaign): opens a chunk of seeding; the first of three calls in one transaction:
--     seed_begin(campaign), COPY into taskq.spec of what seed_known() does not name,
--     seed_end(campaign, its result).
--
-- Result: a task id below all that the COPY will draw. A sequence that is behind, such as in a copy by
-- logical replication, is mended first: with ids below stored ones, done tasks would wait again.
-- Error TQ404: no such campaign. Error TQ409: it, or one above it, is cancelled or archived.
-- Error 53100: see refuse_if_full().
--
-- Locks: an advisory lock for the campaign until the transaction ends, so that chunks of one campaign follow
-- each other, and keys that are not there do not appear before the COPY. Index: spec_pkey.
-- @roles owner
create or replace function taskq.seed_begin(p_campaign bigint)
returns bigint
language plpgsql
as $$
begin
    perform taskq.demand_read_committed();
    perform pg_advisory_xact_lock(hashtext('taskq.seed'), hashint8(p_campaign));
    -- Shared with other seeds, held against remove_campaign().
    perform from taskq.campaign c where c.campaign_id = p_campaign for key share;
    if not found then
        raise exception 'no campaign with id %', p_campaign using errcode = 'TQ404';
    end if;
    if taskq.status_after(p_campaign, 'waiting') = 'cancelled' then
        raise exception '%; resume it before seeding', taskq.cancelled_by(p_campaign)
            using errcode = 'TQ409';
    end if;
    perform taskq.refuse_if_full('seeds are');
    -- Before anything is drawn in this transaction, see mend_sequences().
    -- In the order of spec_pkey: if few rows are expected, a `max` may go through all keys, see spec_of().
    if (select s.task_id
          from taskq.spec s
         where s.campaign_id = p_campaign
         order by s.campaign_id desc, s.task_id desc
         limit 1)
       >= (select q.last_value + q.is_called::integer from taskq.spec_task_id_seq q)
    then
        perform taskq.mend_sequences('spec');
    end if;
    return nextval(pg_get_serial_sequence('taskq.spec', 'task_id'));
end
$$;
