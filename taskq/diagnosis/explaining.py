"""The explanation of a campaign: the rules applied to its facts, or who keeps these from all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from taskq.db.access import Queries
from taskq.db.translation import waited_for_lock
from taskq.diagnosis.blockers import Blocker, read_blockers, server_blocked
from taskq.diagnosis.facts import read_facts
from taskq.diagnosis.odd_readings import OddReader, read_odd_results
from taskq.diagnosis.reasons import Explanation
from taskq.diagnosis.remembered import dated
from taskq.diagnosis.rules import explain_campaign
from taskq.model.errors import TaskqError, Unavailable


def explained(
    database: Queries, path: str, *, whole: bool = True, read_odd: OddReader = read_odd_results
) -> Explanation:
    """Explain a campaign and all below it; raise `NotFound` if there is none.

    If a session of PostgreSQL keeps a table from all readers, name it within seconds. whole,
    read_odd: see `read_facts`.
    """
    try:
        # First: the facts are read once the lock is gone, and nobody waits for it then.
        before = read_blockers(database) if whole else []
        facts = read_facts(database, path, whole=whole, read_odd=read_odd)
        found = explain_campaign(replace(facts, blockers=facts.blockers or before))
        return replace(found, reasons=dated(database, path, found.reasons, whole=whole))
    except Unavailable as error:
        if not (whole and waited_for_lock(error)):
            raise
        blockers: list[Blocker] = []
        with suppress(TaskqError):
            blockers = read_blockers(database)
        if not blockers:
            raise
    return Explanation(
        path=path,
        key=None,
        headline="the database stands still: nothing can be read",
        waiting=0,
        delayed=0,
        working=0,
        leased_ahead=0,
        reasons=[*server_blocked(blockers)],
    )
