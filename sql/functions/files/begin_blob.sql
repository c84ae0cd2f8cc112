-- begin_blob(digest, size): begins to store a blob, whose parts and end_blob() are to follow.
--
-- Result: the id under which to store them; null: the blob exists already. Unfinished blobs are removed
--     by remove_unused_blobs(), a day later at the earliest.
-- Error 53100: see refuse_if_full(). Short results come in reports, and are always taken.
--
-- Locks: the row of the existing blob.
-- @roles serving submitter
-- @gateway no
-- @act no: it stores content, which changes no campaign
create or replace function taskq.begin_blob(p_digest bytea, p_size bigint)
returns bigint
language plpgsql
as $$
declare
    v_id bigint;
begin
    update taskq.blob b
       set put_at = clock_timestamp()
     where b.digest = p_digest
       and b.complete;
    if found then
        return null;
    end if;
    perform taskq.refuse_if_full('inputs, large results and files are');
    insert into taskq.blob (digest, size) values (p_digest, p_size) returning blob_id into v_id;
    return v_id;
end
$$;
