-- recount_limit(campaign, name, most): counts again which tasks still run of the claims of some sessions that count towards
-- a limit, from a place drawn at random; see freed_in_limit(). A part of limit_room() and free_limits(), under the lock of
-- the limit; not for clients.
--
-- Result: of how many sessions, at most `most`. If these are all, the sum of the limit is theirs: one that says too much,
-- as after a restore of some tables, would let tasks wait for ever.
--
-- Index: limit_claim_pkey, limit_total_pkey, and those of working_of_claim().
create or replace function taskq.recount_limit(p_campaign bigint, p_name text, p_most integer)
returns integer
language plpgsql
as $$
declare
    v_rows constant tid[] := array(
        select k.row_id from taskq.claims_in_limit(p_campaign, p_name, p_most) k);
    v_starts constant bigint := taskq.freed_in_limit(p_campaign, p_name, v_rows);
begin
    if cardinality(v_rows) < p_most then
        perform taskq.add_in_limit(p_campaign, p_name, v_starts - taskq.starts_in_limit(p_campaign, p_name));
    end if;
    return cardinality(v_rows);
end
$$;
