-- drop_archive(digest): removes the blob of a checkpoint or of output files that no task has any more.
--
-- Result: whether there was one. Removes only blobs that begin as such archives do, with the task's name, so
-- never an input, an argument or a result; and none that a task still has.
--
-- Locks: the blob's row. Index: blob_digest, blob_part_pkey, checkpoint_digest, output_digest.
-- @roles serving upkeep
create or replace function taskq.drop_archive(p_digest text)
returns boolean
language plpgsql
as $$
declare
    v_blob bigint;
begin
    if p_digest !~ '^[0-9a-f]{64}$' then
        return false;
    end if;
    select b.blob_id into v_blob
      from taskq.blob b
     where b.digest = decode(p_digest, 'hex')
       and b.complete
       and exists (
           select from taskq.blob_part p
            where p.blob_id = b.blob_id
              and p.part = 0
              and (substr(p.data, 1, 19) = convert_to('taskq checkpoint 1 ', 'UTF8')
                   or substr(p.data, 1, 15) = convert_to('taskq output 1 ', 'UTF8')))
       and not exists (select from taskq.checkpoint k where k.digest = p_digest)
       and not exists (select from taskq.output o where o.digest = p_digest)
       for update;
    if not found then
        return false;
    end if;
    delete from taskq.blob_part p where p.blob_id = v_blob;
    delete from taskq.blob b where b.blob_id = v_blob;
    return true;
end
$$;
