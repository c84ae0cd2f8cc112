"""Steering: many tasks at once: cancelled, retried, withdrawn, removed, given priorities."""
