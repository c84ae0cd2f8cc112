"""Bugs in what attempts tell while they run: whose it is, how much, for how long."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_QUEUE: Final = ("tests/integration/attempts/test_updates.py",)
_AGENT: Final = ("tests/unit/test_agent_updates.py",)

UPDATES: Final = (
    Mutant(
        "progress-by-a-stranger",
        "sql/functions/sessions/note_updates.sql",
        "                              and t.session_id = u.session_id\n",
        "",
        "Anybody who learns a lease says how far another agent's task is.",
        _QUEUE,
    ),
    Mutant(
        "progress-of-an-attempt-before",
        "sql/functions/sessions/progress_of.sql",
        "           and p.lease_id = p_lease;\n",
        "         limit 1;\n",
        "A task that begins anew is shown as half done.",
        _QUEUE,
    ),
    Mutant(
        "output-without-end",
        "sql/functions/sessions/note_updates.sql",
        "greatest(length(v_one.output) - 8192, 0) + 1",
        "1",
        "A hostile agent fills the database with output that somebody follows.",
        _QUEUE,
    ),
    Mutant(
        "follower-keeps-heartbeats-waiting",
        "sql/functions/sessions/note_updates.sql",
        "           for no key update of f skip locked\n",
        "           for no key update of f\n",
        "A transaction of a reader lets the leases of all agents of a gateway expire.",
        _QUEUE,
    ),
    Mutant(
        "followed-for-ever",
        "sql/functions/sessions/beat.sql",
        "                     where f.asked_at > v_now - interval '30 s'\n",
        "                     where true\n",
        "Agents send output that nobody looks at any more.",
        _QUEUE,
    ),
    Mutant(
        "progress-through-a-link",
        "agents/taskq_agent/handlers/live.py",
        "READ_SAFELY, dir_fd=inside",
        "READ_SAFELY & ~os.O_NOFOLLOW, dir_fd=inside",
        "A payload in a container shows the last line of any file of the node.",
        _AGENT,
    ),
    Mutant(
        "output-of-the-next-attempt",
        "agents/taskq_agent/handlers/live.py",
        "            self._held, self._folder, self._output = held, folder, None\n",
        "            self._held, self._folder = held, folder\n",
        "Who follows a task sees what the one before it in the slot has printed.",
        _AGENT,
    ),
)
