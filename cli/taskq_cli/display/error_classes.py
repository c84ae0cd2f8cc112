"""Explanation of a `taskq retry --error-class` that matched no task, with the known classes."""

from __future__ import annotations

from collections import Counter

from taskq import Client
from taskq_cli.display.text import most_common, one_line
from taskq_cli.shared import campaigns_with

SHOWN = 6
MAX_GROUPED = 100_000
"""Most failed and lost attempts that are grouped: grouping reads each of them, which takes time."""


def explain_no_such_class(client: Client, path: str, error_class: str) -> str:
    """Return a sentence: no task has this error class; these classes exist, most frequent first.

    Handlers choose the classes, as `exit-3` or `dock.BadReceptor`, so any name may be valid.
    """
    none = f"No such task of {path} ended with the class {one_line(error_class)!r}"
    status = client.campaign(path).status()
    if status.failures + status.losses > MAX_GROUPED:
        return f"{none}; `taskq failures {path}` lists the classes."
    there: Counter[str] = Counter()
    for campaign in campaigns_with(client, path, lambda node: node.failures or node.losses):
        there.update(campaign.failure_classes(below=False))
    if not there:
        return f"{none}; no attempt there has failed or was lost."
    return f"{none}; attempts there have: {most_common(there, SHOWN)}."
