-- A blob that can be read. Index: blob_digest.
select size
  from taskq.blob
 where digest = %(digest)s
   and complete
