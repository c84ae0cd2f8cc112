"""The audit as a judge of what models of the queue have been through."""

from __future__ import annotations

from taskq import Client


def assert_audit_is_clean(queue: Client, path: str) -> None:
    """Let the audit look at a campaign and all below it: whatever happened, it finds nothing."""
    assert list(queue.audit(path)) == []
