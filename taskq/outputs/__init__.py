"""Output files: what a task has left in a folder, kept with its result.

An agent uploads them as one archive, a blob, and `store` notes it for the attempt under its lease,
before that is reported. `fetching` writes the files of results to a folder. The keeper removes what
belongs to no accepted attempt; how much a campaign and a token may keep, PostgreSQL sees to.
"""
