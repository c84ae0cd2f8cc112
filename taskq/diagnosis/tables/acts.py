"""Acts of people: columns."""

from __future__ import annotations

from typing import Final

from taskq.model.acts import RecordedAct
from taskq.model.columns import Column

ACTS: Final[tuple[Column[RecordedAct], ...]] = (
    Column("when", lambda act: act.began_at),
    Column("by", lambda act: act.who),
    Column("verb", lambda act: act.verb),
    Column("campaign", lambda act: act.path, gives_way=True),
    Column("tasks", kind="count", sparse=True),
    Column("what", lambda act: act.what, gives_way=True),
    Column("until", lambda act: act.ended_at),
)
