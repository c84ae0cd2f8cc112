select campaign_id, path, claimable, working, unfinished, usual_s, time_limit_s, requires, tags_suit,
       time_suits
  from taskq.pilot_demand(%(path)s, %(offers)s::text[], %(lifetime_s)s::double precision)
