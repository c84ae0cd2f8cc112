"""The audit as a judge of what models of the queue have been through."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from taskq import Client


def assert_audit_is_clean(queue: Client, path: str, tasks: Iterable[Any]) -> None:
    """Let the audit look at a campaign and all below it, whose tasks a model knows.

    A claim that is repeated after its attempts have ended claims anew, and may get the same task
    under the same lease. No agent does that; models do, and then the audit must say so.
    """
    shared = {("leases", task.task) for task in tasks if _shares_a_lease(task)}
    found = list(queue.audit(path))
    assert {(one.check, one.task_id) for one in found} == shared, found


def _shares_a_lease(task: Any) -> bool:
    leases = [one.lease for one in task.ended]
    if task.status == "working":
        leases.append(task.lease)
    return len(set(leases)) < len(leases)
