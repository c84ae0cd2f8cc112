"""Owners: columns."""

from __future__ import annotations

from collections.abc import Callable

from taskq.db.owners import Owner, ShareBy
from taskq.model.columns import Column
from taskq_agent.units import in_bytes


def columns(by: ShareBy) -> list[Column[Owner]]:
    """Return the columns of owners. by: how running tasks are shared."""
    weight: list[Column[Owner]] = []
    if by == "owner":
        weight = [Column("weight", lambda owner: f"{owner.weight:g}")]
    return [
        Column("owner"),
        Column("campaigns", kind="count"),
        Column("running", lambda owner: _of(owner.working, owner.max_running, "{:,}".format)),
        Column("waiting", lambda owner: _of(owner.waiting, owner.max_waiting, "{:,}".format)),
        Column(
            "stored",
            lambda owner: _of(owner.bytes, owner.max_bytes, in_bytes),
            means="Inputs and output files.",
        ),
        *weight,
        Column(
            "held",
            lambda owner: "no room" if owner.is_full else "",
            means="Why no more of its tasks are handed out.",
            is_bad=lambda owner: owner.is_full,
        ),
    ]


def _of(has: int, may: int | None, text: Callable[[float], str]) -> str:
    """Return an amount, with its quota if there is one."""
    return text(has) if may is None else f"{text(has)} of {text(may)}"
