"""Limits that campaigns share: columns."""

from __future__ import annotations

from typing import Final

from taskq.db.named_limits import NamedLimit
from taskq.model.columns import Column


def _holders(limit: NamedLimit) -> str:
    return ", ".join(f"{held.path} ({held.tasks:,})" for held in limit.holders)


COLUMNS: Final[list[Column[NamedLimit]]] = [
    Column("name"),
    Column(
        "used",
        lambda limit: f"{limit.used:,} of {limit.most:,}",
        means="Starts that run: an agent counts for no more than its slots.",
        is_bad=lambda limit: limit.is_full,
    ),
    Column("campaigns", kind="count", means="How many name it."),
    Column("holders", _holders, means="Campaigns with most tasks that count, and how many."),
    Column(
        "owners",
        lambda limit: "all" if limit.owners is None else ", ".join(limit.owners),
        means="Whose campaigns may name it.",
    ),
]
