-- At most so many bytes of a part of a blob, without its first ones. Index: blob_digest, blob_part_pkey.
-- @roles all
-- @standby yes
-- @gateway no
select substr(p.data, %(skip)s + 1, %(most)s) as data
  from taskq.blob b
  join taskq.blob_part p on p.blob_id = b.blob_id
 where b.digest = %(digest)s
   and b.complete
   and p.part = %(part)s
