"""Numbered forward migrations."""
