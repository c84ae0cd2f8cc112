"""Campaigns: their tree, settings, status and counters."""
