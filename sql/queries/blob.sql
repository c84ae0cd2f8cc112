-- A blob that can be read. Index: blob_digest.
-- @roles all
-- @standby yes
-- @gateway no
select size
  from taskq.blob
 where digest = %(digest)s
   and complete
