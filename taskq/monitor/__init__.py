"""Monitoring: what is live about a queue, for the pages of `taskq web` and for `taskq top`.

One ticker for all viewers reads the tree of campaigns (`ticker.py`), at most one statement a
second, and none while nobody looks. `tree.py` makes totals, paces and agents of what was read,
purely; `figures.py` says them as texts. What takes more than a few milliseconds is kept for some
seconds and read by two threads at most (`readings.py`), so that many viewers cost what one does.
"""
