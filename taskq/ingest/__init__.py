"""Ingest of tasks: `sources` reads files and sweeps, `seeding` writes tasks in chunks.

`campaign_file` reads a campaign and its tasks from one TOML file.
"""
