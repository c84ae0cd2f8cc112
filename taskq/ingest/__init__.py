"""How tasks come in: `sources` reads files and sweeps, `seeding` writes them in chunks.

`campaign_file` reads a campaign and its tasks from one TOML file.
"""
