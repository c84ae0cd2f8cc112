"""Checks of the audit: each file finds what must never be in the tables. See `taskq.db.audit`."""
