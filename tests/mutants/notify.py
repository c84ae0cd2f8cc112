"""Bugs in notifications: what is sent, how often, and to whom."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_EVENTS: Final = ("tests/integration/notify/test_events.py",)
_SENDING: Final = ("tests/integration/notify/test_sending.py",)
_PARTS: Final = ("tests/unit/test_notify_parts.py",)

NOTIFY: Final = (
    Mutant(
        "agents-that-leave-count-as-agents",
        "sql/functions/note_events.sql",
        "       and not s.drain\n",
        "",
        "Nobody is told that all agents of a campaign leave.",
        _EVENTS,
    ),
    Mutant(
        "events-that-come-and-go-are-told-each-time",
        "sql/functions/note_events.sql",
        "or n.gone_at < v_now - v_calm);\n",
        "or true);\n",
        "Agents that come and go make a message each time.",
        _EVENTS,
    ),
    Mutant(
        "campaign-at-its-end-is-slow",
        "sql/functions/note_events.sql",
        "               where w.open > 0\n                 and",
        "               where",
        "Each campaign whose last tasks run is told to have become slow.",
        _EVENTS,
    ),
    Mutant(
        "message-is-taken-by-two",
        "sql/functions/take_messages.sql",
        "               and (r.held_until < v_now) is not false\n",
        "",
        "Each keeper sends the message that another is sending.",
        _SENDING,
    ),
    Mutant(
        "message-is-tried-for-ever",
        "sql/functions/end_message.sql",
        "v_rule.attempts >= v_tries;",
        "v_rule.attempts > 1000 * v_tries;",
        "What cannot be sent is never given up.",
        _SENDING,
    ),
    Mutant(
        "program-gets-the-keepers-secrets",
        "taskq/upkeep/delivery.py",
        "    environment = own()\n",
        "    environment = dict(os.environ)\n",
        "Whoever may name a program of the folder has it told the database's password.",
        _SENDING,
    ),
    Mutant(
        "hidden-private-address-is-public",
        "taskq/upkeep/deliver.py",
        "        elif any(ip in net for net in _WRAPPED):\n",
        "        elif ip.is_loopback:\n",
        "A rule reaches private addresses through a translator of addresses.",
        _PARTS,
    ),
    Mutant(
        "webhook-refusal-counts-as-sent",
        "taskq/upkeep/deliver.py",
        "_SUCCESS: Final = range(200, 300)",
        "_SUCCESS: Final = range(200, 600)",
        "A message that its receiver refused is never sent again.",
        _SENDING,
    ),
)
