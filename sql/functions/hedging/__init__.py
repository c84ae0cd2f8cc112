"""Hedging: second attempts of slow tasks."""
