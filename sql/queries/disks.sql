-- The disks that the queue needs, as keepers measured them within ten minutes; those with the least room first.
--
-- free, size, kept: in bytes; where less than kept is free, seeds and large results are refused (is_full). full_in_s: in
-- how many seconds that will be, if less and less is free as in the last hour or so; null: it does not.
-- @roles reader
-- @standby yes
-- @gateway manager, quiet, whole
select d.place, d.free, d.size, d.kept, d.is_full,
       case when f.per_s * 31536000 > d.size then greatest(d.free - d.kept, 0) / f.per_s end as full_in_s
  from taskq.disk d
 cross join lateral (
     select d.falls_per_s
            / greatest(1 - exp(-extract(epoch from d.measured_at - d.since)::double precision / 3600), 0.01) as per_s
 ) f
 where d.measured_at > clock_timestamp() - interval '10 min'
 order by d.free::double precision / greatest(d.size, 1), d.place
