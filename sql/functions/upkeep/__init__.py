"""Upkeep: the keeper's round, the brake, trends, timelines."""
