-- put_blob_part(blob, part, data): stores a part of a blob that begin_blob() has announced.
--
-- part: from 0. data: 1 MiB; the last part may be shorter. There are only as many parts as the announced size
--     takes, at most 1 GiB.
-- Error TQ404: no such blob is being stored, or it has no such part.
--
-- Locks: the blob's row, against end_blob(). Index: blob_pkey, blob_part_pkey.
-- @roles serving submitter
-- @gateway no
-- @act no: it stores content, which changes no campaign
create or replace function taskq.put_blob_part(p_blob bigint, p_part integer, p_data bytea)
returns void
language plpgsql
as $$
begin
    perform
       from taskq.blob b
      where b.blob_id = p_blob
        and not b.complete
        and p_part >= 0
        and p_part * 1048576::bigint < b.size
        for key share;
    if not found then
        raise exception 'blob % is not being stored, or has no part %', p_blob, p_part
            using errcode = 'TQ404';
    end if;
    insert into taskq.blob_part (blob_id, part, data) values (p_blob, p_part, p_data);
end
$$;
