"""Blobs: inputs that tasks share, and results too large for a report, stored by their SHA-256.

`catalogue` knows which there are, the stores have the bytes: PostgreSQL and `folder`, or `remote`
for whatever fsspec reaches. `large_results` exchanges references for what they stand for.
"""
