-- One exchange for one campaign.
select acks, tasks, refused, revision, spent, avoided
  from taskq.exchange(
      %(campaign)s, %(reports)s::jsonb, %(sessions)s::bigint[], %(leases)s::uuid[],
      %(wants)s::integer[])
