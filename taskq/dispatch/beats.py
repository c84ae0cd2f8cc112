"""What a beat asks of the database, and what it is told; see sql/functions/beat.sql."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from typing import Any, Final

from taskq.db.connections import Row
from taskq_agent.errors import Refused, SessionLost
from taskq_agent.protocol import Beat, BeatAnswer, Held, Orders, Trouble
from taskq_agent.text import clean

#: Attempts and claims that one beat may name. An agent has a few for each of its slots.
MOST_NAMED: Final = 10_000

_LEASE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MOST_CLASS_CHARS: Final = 200
_MOST_BIGINT: Final = 2**63 - 1
_MOST_INTEGER: Final = 2**31 - 1


def outcome(row: Row | None, timeline: int) -> BeatAnswer | SessionLost:
    """Return what a session is told, by a server of this timeline; None: nothing in particular."""
    if row is None:
        return BeatAnswer(timeline=timeline)
    if row["ended"]:
        return SessionLost("the session has ended")
    stop = tuple(Held(campaign, task, lease) for campaign, task, lease in row["stop"] or ())
    return BeatAnswer(stop, Orders(drain=row["drain"]), timeline, row["suspect"] or "")


def encoded(beat: Beat) -> str:
    """Return a beat as `beat()` takes it; raise `Refused` at what would fail there."""
    numbers = itertools.chain(
        [beat.session, beat.timeline],
        *((held.campaign, held.task) for held in beat.held),
        (one.campaign for one in beat.tally),
    )
    for number in numbers:
        if type(number) is not int or not 0 <= number <= _MOST_BIGINT:
            raise Refused(f"{number!r:.80} is no number of a session, campaign, task or timeline")
    for number in itertools.chain(*((one.done, one.failed) for one in beat.tally)):
        if type(number) is not int or not 0 <= number <= _MOST_INTEGER:
            raise Refused(f"{number!r:.80} is no number of attempts")
    if len(beat.held) + len(beat.pending) > MOST_NAMED:
        raise Refused(f"a beat names {MOST_NAMED} attempts and claims at most")
    _check_leases(held.lease for held in beat.held)
    _check_leases(beat.pending)
    if beat.drawn:
        _check_leases([beat.drawn])
    return json.dumps(
        {
            "session": beat.session,
            "held": [(held.campaign, held.task, held.lease) for held in beat.held],
            "pending": beat.pending,
            "drawn": beat.drawn or None,
            "timeline": beat.timeline,
            **({} if beat.trouble is None else {"trouble": _storable(beat.trouble)}),
            **(
                {"tally": [(one.campaign, one.done, one.failed) for one in beat.tally]}
                if beat.tally
                else {}
            ),
        },
        separators=(",", ":"),
    )


def _storable(trouble: Trouble) -> dict[str, Any]:
    """Return what is kept of it; whatever an agent says fits."""
    return {
        "failures": trouble.failures,
        "error_class": clean(trouble.error_class)[:_MOST_CLASS_CHARS],
        "try_in_s": trouble.try_in_s,
    }


def _check_leases(leases: Iterable[str]) -> None:
    for lease in leases:
        if not _LEASE.fullmatch(lease):
            raise Refused(f"{lease!r:.80} is no lease id; `LeaseIds` draws them")
