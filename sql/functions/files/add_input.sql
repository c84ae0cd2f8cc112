-- add_input(path, name, digest, size): adds an input to a campaign, or replaces the one of this name.
-- It applies to tasks that are claimed afterwards.
--
-- name: a file name. digest: SHA-256, in hex, of a blob that is stored already. size: bytes.
-- Result: the campaign's revision. Error TQ404: no such campaign. Error TQ400: a malformed name or
--     digest, or more than 100 inputs. Error TQ409: see check_bytes() and
--     demand_not_archived().
--
-- Locks: the campaign's row. See put_input(), and note_recipe().
-- @roles submitter
-- @gateway submitter
-- @repeat safe
-- @act change
create or replace function taskq.add_input(
    p_path text, p_name text, p_digest text, p_size bigint
)
returns integer
language plpgsql
as $$
declare
    v_before taskq.campaign;
    v_revision integer;
begin
    select c.* into v_before from taskq.campaign c where c.path = p_path for update;
    perform taskq.demand_not_archived(v_before.campaign_id);
    v_revision := taskq.put_input(p_path, p_name, p_digest, p_size);
    perform taskq.note_recipe(v_before);
    return v_revision;
end
$$;
