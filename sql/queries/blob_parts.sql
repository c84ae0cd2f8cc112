-- The next bytes of a blob, with its length, in rows of 1 MiB at most; no row: there is no such blob.
--
-- part, skip: where they begin. most: of the parts. end: the offset at which they end. A blob without
-- bytes from there on has one row, without data. Index: blob_digest, blob_part_pkey.
-- @roles all
-- @standby yes
-- @gateway no
select b.size,
       substr(p.data,
              case p.part when %(part)s then %(skip)s + 1 else 1 end,
              least(1048576, %(end)s - p.part * 1048576::bigint)::integer
                  - case p.part when %(part)s then %(skip)s else 0 end) as data
  from taskq.blob b
  left join taskq.blob_part p
    on p.blob_id = b.blob_id
   and p.part >= %(part)s
   and p.part < %(part)s + %(most)s
   and p.part * 1048576::bigint < %(end)s
 where b.digest = %(digest)s
   and b.complete
 order by p.part
