"""Diagnosis: why tasks do not run, how hosts and sites do, how a campaign goes.

`fact_reading` reads bounded facts in one snapshot, from counters and sessions; `rules` and its
neighbours turn them into reasons, without clock or connection. `fleet` is the way in to hosts and
sites: `places` compares them by a bounded sample of the latest attempts, `blame` says whose fault
failures are, `bans` who is kept away. `trend` and `history` tell of the past. `ticker` reads what
is live, once for all viewers, and `campaign_tree` adds it up.
"""
