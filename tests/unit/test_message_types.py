"""A message is declared once: agents and gateways accept the same of it."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, replace
from typing import Any

import pytest

from taskq.gateway.http.errors import BadRequest
from taskq.gateway.message_types import message_type
from taskq.gateway.messages import read_exchange, read_heartbeat
from taskq_agent import protocol
from taskq_agent.core.reports import ended_report
from taskq_agent.handlers.base import Ended
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import FAILED, Heartbeat, Held, Report, Request, Trouble
from taskq_agent.task_messages import MAX_NOTE_CHARS, Update, UpdatingHeartbeat
from taskq_agent.wire import check, decoded, dumps, fitted

LEASE = new_lease()
HELD = Held(1, 2, LEASE)
REPORT = Report(1, 2, LEASE, FAILED)
UPDATE = Update(1, 2, LEASE)
#: Of each message a value that is just allowed, and one that is not.
EDGES: list[tuple[Any, str, Any, Any]] = [
    (Request(1), "want", protocol.MAX_CLAIM, protocol.MAX_CLAIM + 1),
    (Request(1), "wait_s", protocol.LONGEST_WAIT_S, protocol.LONGEST_WAIT_S + 0.5),
    (Request(1), "lifetime_s", -1e9, -1.1e9),
    (Request(1), "without", ((1, 2),) * 16, ((1, 2),) * 17),
    (Request(1), "without", ((1, 2),), ((1, 2, 3),)),
    (Request(1), "lease", LEASE, LEASE + "\n"),
    (Request(1), "lease", "", "x"),
    (REPORT, "task", 2**63 - 1, 2**63),
    (REPORT, "outcome", "released", "cancelled"),
    (REPORT, "error", "é" * protocol.MAX_ERROR_CHARS, "é" * (protocol.MAX_ERROR_CHARS + 1)),
    (REPORT, "phases", {"x" * protocol.MAX_NAME_CHARS: 1.0}, {"x" * 201: 1.0}),
    (REPORT, "exit_code", -(2**31), 2**31),
    (Heartbeat(1), "held", (HELD,) * protocol.MAX_HELD, (HELD,) * (protocol.MAX_HELD + 1)),
    (Heartbeat(1), "pending", (LEASE,) * 100, (LEASE,) * 101),
    (Heartbeat(1), "trouble", Trouble(try_in_s=1e6), Trouble(try_in_s=-1.0)),
    (Heartbeat(1), "trouble", Trouble(warnings=("w",) * 16), Trouble(warnings=("w",) * 17)),
    (UPDATE, "fraction", 1.0, 1.5),
    (UPDATE, "note", "n" * MAX_NOTE_CHARS, "n" * (MAX_NOTE_CHARS + 1)),
    (UPDATE, "output", b64encode(b"x" * 8_192).decode(), b64encode(b"x" * 8_193).decode()),
]


def read_by_gateway(message: Any) -> None:
    """Send a message, or what it is a part of, to a gateway's decoder."""
    if isinstance(message, Report):
        message = Request(1, (message,))
    elif isinstance(message, Update):
        message = UpdatingHeartbeat(1, updates=(message,))
    read = read_exchange if isinstance(message, Request) else read_heartbeat
    read(dumps(message).encode())


@pytest.mark.parametrize(
    ("message", "member", "fits", "too_much"), EDGES, ids=[str(n) for n in range(len(EDGES))]
)
def test_agents_and_gateways_accept_the_same(
    message: Any, member: str, fits: object, too_much: object
) -> None:
    largest, beyond = replace(message, **{member: fits}), replace(message, **{member: too_much})
    check(largest)
    assert decoded(type(message), dumps(largest).encode()) == largest
    read_by_gateway(largest)
    with pytest.raises(ValueError, match=rf"{type(message).__name__}\.{member}"):
        check(beyond)
    with pytest.raises(ValueError, match=rf"\.{member}"):
        decoded(type(message), dumps(beyond).encode())
    with pytest.raises(BadRequest):
        read_by_gateway(beyond)


def test_member_without_a_limit_cannot_be_declared() -> None:
    """Whatever comes from outside is bounded, so that a new member is too."""

    @dataclass
    class Open:
        session: int
        size: int = 0

    with pytest.raises(TypeError, match=r"size: .*int.* has no limit"):
        message_type(Open)


def test_report_of_an_agent_fits_whatever_its_handler_says() -> None:
    """A gateway would refuse a text that is too long, and the work of the attempt with it."""
    ended = Ended(FAILED, error_class="Boom" * 500, error="\x1b[31m" + "x" * 5_000)
    report = ended_report(HELD, ended, wait_s=0.1, stopped=False)
    assert report.error_class == ("Boom" * 500)[: protocol.MAX_NAME_CHARS]
    assert report.error == "x" * protocol.MAX_ERROR_CHARS
    read_by_gateway(report)


def test_text_of_nothing_but_control_characters_becomes_empty() -> None:
    assert fitted(replace(REPORT, error="\x00\x07")).error == ""
    assert fitted(REPORT) is REPORT
