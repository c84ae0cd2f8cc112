-- add_argument(path, digest, size): records that calls of a campaign have a blob as an argument: the campaign's
-- agents may read it, and it stays as long as the campaign.
--
-- digest: SHA-256, in hex, of a blob that is stored already. size: bytes, at most 64 MiB.
-- Result: whether the campaign did not have it before. Error TQ404: no such campaign. Error TQ400: a malformed
--     digest or size. Error TQ409: see check_bytes().
--
-- Locks: a row of output_use. Index: campaign_path_key, argument_pkey, output_use_pkey.
-- @roles submitter
-- @gateway manager
-- @repeat safe
-- @act no: it stores an argument of tasks
create or replace function taskq.add_argument(p_path text, p_digest text, p_size bigint)
returns boolean
language plpgsql
as $$
declare
    v_campaign constant bigint := taskq.campaign_id(p_path);
begin
    if p_digest !~ '^[0-9a-f]{64}$' or p_size not between 0 and 67108864 then
        raise exception 'the digest of an argument has 64 digits, 0-9 and a-f, and its size is at most 64 MiB'
            using errcode = 'TQ400';
    end if;
    insert into taskq.argument (campaign_id, digest, size)
    values (v_campaign, p_digest, p_size)
        on conflict (campaign_id, digest) do nothing;
    if not found then
        return false;
    end if;
    perform taskq.check_bytes(
        (select c.owner from taskq.campaign c where c.campaign_id = v_campaign), p_size);
    perform taskq.use_output(v_campaign, -1, ('x' || left(p_digest, 2))::bit(8)::integer, p_size);
    return true;
end
$$;
