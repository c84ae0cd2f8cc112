"""Results that have come since: each is given once, however late its transaction commits.

A cursor is the set of tasks whose results were given, as ranges of ids. So nothing about the order
of ids, clocks or transactions is taken for granted, and reports need not write any order down. What
it touches: the statement `done_within`; the verbs of `Campaign` that read results (`campaign.py`).
"""
