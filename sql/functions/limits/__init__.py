"""Limits: of the queue, which campaigns share: made, shown, checked."""
