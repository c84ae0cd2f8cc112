"""Owners: quotas, and what counts towards them."""
