-- put_blob(digest, data): stores a short blob at once; see begin_blob() for a long one.
--
-- data: at most 8 MiB. The caller verifies the digest. A blob that exists stays as it is.
-- Error TQ400: the data are longer.
--
-- Locks: the row of the existing blob; if two store the same blob, the second waits for the first.
-- Index: blob_digest.
-- @roles serving submitter
-- @gateway no
-- @act no: it stores content, which changes no campaign
create or replace function taskq.put_blob(p_digest bytea, p_data bytea)
returns void
language plpgsql
as $$
declare
    v_size constant integer := length(p_data);
    v_id bigint;
begin
    if v_size > 8388608 then
        raise exception 'a blob of % bytes; at most 8388608 are stored at once', v_size using errcode = 'TQ400';
    end if;
    v_id := taskq.begin_blob(p_digest, v_size);
    if v_id is null then
        return;
    end if;
    insert into taskq.blob_part (blob_id, part, data)
    select v_id, n, substr(p_data, n * 1048576 + 1, 1048576)
      from generate_series(0, (v_size - 1) / 1048576) n
     where v_size > 0;
    perform taskq.end_blob(v_id);
end
$$;
