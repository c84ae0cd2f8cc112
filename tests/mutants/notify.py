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
        "taskq/diagnosis/obstacles.py",
        "    at_work = [kind for kind in heard if not kind.draining]\n",
        "    at_work = heard\n",
        "Nobody learns that all agents of a campaign leave.",
        _EVENTS,
    ),
    Mutant(
        "events-that-recur-are-reported-each-time",
        "sql/functions/notifications/note_look.sql",
        "            or t.gone_at < v_now - v_calm\n",
        "            or t.gone_at is not null\n",
        "Agents that come and go make a message each time.",
        _EVENTS,
    ),
    Mutant(
        "paused-campaign-is-slow",
        "taskq/diagnosis/lately.py",
        "    if past is None or not served:\n",
        "    if past is None:\n",
        "Each campaign that is paused is reported to have become slow.",
        _EVENTS,
    ),
    Mutant(
        "look-that-ends-after-a-later-one-counts",
        "sql/functions/notifications/note_look.sql",
        "       and w.noted < p_look\n",
        "       and true\n",
        "A keeper that was frozen while it looked reports what is long over.",
        ("tests/integration/notify/test_looks.py",),
    ),
    Mutant(
        "mild-reasons-are-events",
        "taskq/diagnosis/events.py",
        "(reason.blocks or reason.lost or reason.code in _REPORTED)",
        "True",
        "A message goes out since one of many agents is silent, or all slots are busy.",
        ("tests/integration/notify/test_same_words.py",),
    ),
    Mutant(
        "message-is-taken-by-two",
        "sql/functions/notifications/take_messages.sql",
        "               and (r.held_until < v_now) is not false\n",
        "",
        "Each keeper sends the message that another is sending.",
        _SENDING,
    ),
    Mutant(
        "message-is-tried-for-ever",
        "sql/functions/notifications/end_message.sql",
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
        "Anybody who may name a program of the folder can give it the database's password.",
        _SENDING,
    ),
    Mutant(
        "hidden-private-address-is-public",
        "taskq/upkeep/webhooks.py",
        "        elif any(ip in net for net in _WRAPPED):\n",
        "        elif ip.is_loopback:\n",
        "A rule reaches private addresses through a translator of addresses.",
        _PARTS,
    ),
    Mutant(
        "webhook-refusal-counts-as-sent",
        "taskq/upkeep/webhooks.py",
        "_SUCCESS: Final = range(200, 300)",
        "_SUCCESS: Final = range(200, 600)",
        "A message that its receiver refused is never sent again.",
        _SENDING,
    ),
)
