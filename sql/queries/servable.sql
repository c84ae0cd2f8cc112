select campaign_id, desire, revision
  from taskq.servable(
           %(path)s, %(lifetime_s)s::double precision, %(offers)s::text[], %(most)s::integer)
