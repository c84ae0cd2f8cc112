"""Updates of attempts in a heartbeat, encoded for the server-side function."""

from __future__ import annotations

import json
import re
from typing import Final

from taskq_agent.errors import Refused
from taskq_agent.protocol import Heartbeat
from taskq_agent.text import clean
from taskq_agent.update_messages import MAX_NOTE_CHARS, MAX_UPDATES, TellingHeartbeat, Update

_LEASE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_MOST_BIGINT: Final = 2**63 - 1


def encoded(heartbeat: Heartbeat) -> str:
    """Return the updates of a heartbeat as elements of the array for `note_updates()`.

    Empty if it has none, which is nearly always so. Raise `Refused` for values that would fail
    there.
    """
    if not isinstance(heartbeat, TellingHeartbeat):
        return ""
    if len(heartbeat.updates) > MAX_UPDATES:
        raise Refused(f"a heartbeat has {MAX_UPDATES} updates at most")
    return ",".join(_encoded(one, heartbeat.session) for one in heartbeat.updates)


def _encoded(update: Update, session: int) -> str:
    for number in (update.campaign, update.task, update.written):
        if type(number) is not int or not 0 <= number <= _MOST_BIGINT:
            raise Refused(f"{number!r:.80} is no number of a campaign, a task or bytes")
    if not _LEASE.fullmatch(update.lease):
        raise Refused(f"{update.lease!r:.80} is no lease id; `LeaseIds` draws them")
    note = clean(update.note)[:MAX_NOTE_CHARS]
    members = {**vars(update), "session": session, "note": note or None}
    return json.dumps(members, separators=(",", ":"))
