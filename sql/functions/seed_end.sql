-- seed_end(campaign, above): makes the specs of this chunk tasks that can be claimed.
--
-- above: what seed_begin() returned. Result: how many tasks.
--
-- Locks: none. Index: spec_pkey. Chunks of one campaign follow each other, so that what lies above
-- the mark belongs to this transaction.
create or replace function taskq.seed_end(p_campaign bigint, p_above bigint)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    v_seeded integer;
begin
    insert into taskq.task (campaign_id, task_id, priority)
    select s.campaign_id, s.task_id, s.priority
      from taskq.spec s
     where s.campaign_id = p_campaign
       and s.task_id > p_above
     order by s.campaign_id, s.task_id;
    get diagnostics v_seeded = row_count;
    if v_seeded > 0 then
        insert into taskq.delta (campaign_id, waiting) values (p_campaign, v_seeded);
    end if;
    return v_seeded;
end
$$;
