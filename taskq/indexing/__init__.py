"""Indexes of results, for the best of very many: begun, filled, listed, dropped.

What it touches: tables of its own, which the keeper fills (`sql/functions/keep_indexes.sql`), and
`best_results`, which asks an index that is complete; the verbs of `Campaign` (`campaign.py`).
"""
