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
as $$
declare
    v_seeded constant integer := taskq.pack(p_campaign, p_above);
begin
    if v_seeded > 0 then
        insert into taskq.delta (campaign_id, waiting) values (p_campaign, v_seeded);
    end if;
    return v_seeded;
end
$$;
