"""Pilots: pilots and their jobs."""
