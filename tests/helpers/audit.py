"""Assertion that the audit of the queue finds no damage."""

from __future__ import annotations

from taskq import Client


def assert_audit_is_clean(queue: Client, path: str) -> None:
    """Assert that the audit of a campaign and all below it finds nothing."""
    assert list(queue.audit(path)) == []
