-- end_blob(blob): completes a blob whose parts are all stored, so that it can be read. The caller
-- verifies the digest while it sends: the server could not hash up to 1 GiB in one piece.
--
-- Error TQ404: no such blob, or it has been removed as abandoned. Error TQ400: the parts do not add
--     up to its size.
--
-- Locks: the blob's row; if two store the same blob, the second waits for the first and then drops its own.
-- @roles serving submitter
-- @gateway no
-- @act no: it stores content, which changes no campaign
create or replace function taskq.end_blob(p_blob bigint)
returns void
language plpgsql
as $$
declare
    v_size bigint;
    v_stored bigint;
begin
    select b.size into v_size from taskq.blob b where b.blob_id = p_blob for update;
    if not found then
        raise exception 'blob % is not being stored', p_blob using errcode = 'TQ404';
    end if;
    select coalesce(sum(length(p.data)), 0) into v_stored
      from taskq.blob_part p
     where p.blob_id = p_blob;
    if v_stored <> v_size then
        raise exception 'the blob was announced with % bytes, but % were stored', v_size, v_stored
            using errcode = 'TQ400';
    end if;
    begin
        update taskq.blob b
           set complete = true, put_at = clock_timestamp()
         where b.blob_id = p_blob;
    exception when unique_violation then
        delete from taskq.blob_part p where p.blob_id = p_blob;
        delete from taskq.blob b where b.blob_id = p_blob;
    end;
end
$$;
