"""Owners: quotas, what counts towards them, and what was used."""
