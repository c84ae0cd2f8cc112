"""Notifications: rules, their events and messages."""
