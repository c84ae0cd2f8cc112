select claimable, unfinished from taskq.claimable(%(servings)s::jsonb, %(front)s)
