"""Owners of campaigns: who made them, what they have and may use, how they share.

`Client.owners` is the way in. PostgreSQL says who an owner is and keeps the quotas:
`sql/migrations/0024_owners.sql`.
"""
