"""Diagnosis: why tasks do not run, how hosts and sites do, how a campaign goes.

`facts` reads bounded facts in one snapshot, from counters and sessions; `rules` and its
neighbours turn them into reasons, without clock or connection. `fleet` is the entry to hosts and
sites: `places` compares them by a bounded sample of the latest attempts, `blame` finds whose fault
failures are, `bans` describes bans. `trend` and `history` cover the past. `ticker` reads the live
counts, once for all viewers, and `campaign_tree` adds them up.
"""
