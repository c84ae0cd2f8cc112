-- Reports on attempts of several campaigns, one campaign for each.
select taskq.settle_many(%(campaigns)s::bigint[], %(reports)s::jsonb) as acks
