"""Seeding: new tasks, known keys, checks of payloads."""
