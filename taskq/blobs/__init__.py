"""Blobs: inputs that tasks share, and results too large for a report, stored by their SHA-256.

`catalogue` opens the store of a queue: PostgreSQL, a `folder`, or `remote` for any storage that
fsspec supports. `large_results` replaces references by the results that they stand for.
"""
