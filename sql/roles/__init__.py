"""Roles: what each may do, as grants to one login."""
