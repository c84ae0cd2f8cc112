"""Explanations: why a campaign or a task does not run, or not faster, and what changes that.

`reading` fetches bounded facts in one snapshot, from counters and sessions; `rules` and its
neighbours turn them into reasons, without clock or connection. `Campaign.explain` is the way in.
"""
