from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq_agent.campaign_news import CampaignOutcomes
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import (
    ACCEPTED,
    DONE,
    Ack,
    Answer,
    CampaignTerms,
    Heartbeat,
    HeartbeatAnswer,
    Held,
    Hello,
    Input,
    Orders,
    Report,
    Request,
    Task,
    Welcome,
)
from taskq_agent.wire import decoded, dumps

LEASE = "00000000-0000-7ff2-9d87-60e714628170"
CAMPAIGN = CampaignTerms(
    1, 2, "/a", {"kind": "command"}, {"x": [1]}, None, {"receptor": Input("ab", 3)}, "stop"
)
TASK = Task(1, 2, 3, "key", 4, LEASE, {"ligand": "CC", "n": 1.5})
MESSAGES = [
    Hello(LEASE, "/", "name", "host", 1, "site", 2, "0.1", ("gpu", "mem=64")),
    Welcome(1, 30.0, 120.0, "tqs_secret"),
    Request(1, (Report(1, 2, LEASE, "done", result={"a": None}, phases={"run_s": 1.0}),), 3),
    Answer(
        (Ack(1, 2, LEASE, ACCEPTED),),
        (TASK,),
        (CAMPAIGN,),
        7,
        Orders(drain=True, gateways=("https://a",), claim_after_s=1.5),
    ),
    Heartbeat(1, (Held(1, 2, LEASE),), (LEASE,), LEASE, tally=(CampaignOutcomes(1, 30, 2),)),
    HeartbeatAnswer((Held(1, 2, LEASE),), Orders(drain=True, why="the host n1 is banned")),
]
WELCOME = {"session": 1, "heartbeat_s": 1.0, "lease_s": 4.0}


def welcome(**members: Any) -> bytes:
    return json.dumps({**WELCOME, **members}).encode()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_of_one_side_are_read_by_the_other(message: object) -> None:
    """Both sides have the same messages."""
    assert decoded(type(message), dumps(message).encode()) == message


def test_unknown_members_are_passed_over() -> None:
    """A gateway of a later release may say more."""
    assert decoded(Welcome, welcome(news={"a": [1]})) == Welcome(1, 1.0, 4.0)


def test_whole_numbers_serve_as_seconds() -> None:
    assert decoded(Welcome, welcome(heartbeat_s=30)).heartbeat_s == 30.0


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "Expecting value"),
        (b"<html>504</html>", "Expecting value"),
        (b"\xff\xfe", "decode"),
        (b"[]", "Welcome is not an object"),
        (b'{"session": 1', "delimiter"),
        (b'{"session": 1}', "has no heartbeat_s"),
        (welcome(session="1"), "Welcome.session is not of type int"),
        (welcome(session=True), "Welcome.session is not of type int"),
        (welcome(session=1.0), "Welcome.session is not of type int"),
        (welcome(session=None), "Welcome.session is not of type int"),
        (welcome(lease_s="4"), "Welcome.lease_s is not a finite number"),
        (welcome(lease_s=True), "Welcome.lease_s is not a finite number"),
        (welcome(lease_s=10**400), "Welcome.lease_s is not a finite number"),
        (welcome(token=["a"]), "Welcome.token is not of type str"),
        (welcome(news="\ud800"), "surrogates"),
        (b'{"session": 1, "heartbeat_s": NaN, "lease_s": 4}', "NaN is not JSON"),
        (b'{"session": 1, "heartbeat_s": 1e999, "lease_s": 4}', "not a finite number"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_anything_else_is_refused(data: bytes, text: str) -> None:
    """Whatever comes instead of a message, the error is the same and says what is wrong."""
    with pytest.raises(ValueError, match=text):
        decoded(Welcome, data)


@pytest.mark.parametrize(
    ("member", "value", "text"),
    [
        ("acks", {}, "Answer.acks is not an array"),
        ("tasks", [3], "Answer.tasks is not an object"),
        ("orders", [], "Answer.orders is not an object"),
        ("orders", {"claim_after_s": "soon"}, "Answer.orders.claim_after_s is not a finite"),
        ("unfinished", "none", "Answer.unfinished is not of type int"),
        ("tasks", [{**vars(TASK), "payload": [1]}], "payload is not an object"),
        ("campaigns", [{**vars(CAMPAIGN), "inputs": {"a": 1}}], "inputs is not an object"),
    ],
)
def test_parts_are_checked_too(member: str, value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decoded(Answer, json.dumps({member: value}).encode())


@pytest.mark.parametrize(
    ("kind", "message", "member", "value"),
    [
        (Answer, Answer(tasks=(TASK,)), LEASE, LEASE[:-1] + "g"),
        (Answer, Answer(tasks=(TASK,)), LEASE, LEASE + "\\n"),
        (Answer, Answer(tasks=(TASK,)), '"task":3', '"task":9223372036854775808'),
        (Answer, Answer(tasks=(TASK,)), '"revision":2', '"revision":-2'),
        (Answer, Answer(campaigns=(CAMPAIGN,)), '"campaign":1', '"campaign":-1'),
        (Answer, Answer((Ack(1, 2, LEASE, ACCEPTED),)), LEASE, LEASE.upper()),
        (Answer, Answer(timeline=4), '"timeline":4', '"timeline":-4'),
        (HeartbeatAnswer, HeartbeatAnswer((Held(1, 2, LEASE),)), LEASE, LEASE[1:]),
        (HeartbeatAnswer, HeartbeatAnswer(timeline=4), '"timeline":4', '"timeline":1' + "0" * 30),
    ],
)
def test_values_that_an_agent_will_send_back_are_checked_on_arrival(
    kind: type[object], message: object, member: str, value: str
) -> None:
    """They may be damaged by plain HTTP: a gateway would refuse them, and all next to them."""
    spoilt = dumps(message).replace(member, value)
    assert spoilt != dumps(message)
    with pytest.raises(ValueError, match=r"is not (in its form|from 0 to)"):
        decoded(kind, spoilt.encode())


def test_task_that_is_nested_deep_does_not_keep_others_from_their_answer() -> None:
    """What cannot be done with it fails its attempt."""
    deep = dumps(Answer(tasks=(TASK,))).replace('"CC"', "[" * 800 + "]" * 800).encode()
    assert decoded(Answer, deep).tasks


@given(st.lists(st.integers(0, 2**60), min_size=2, max_size=20))
def test_lease_ids_rise_whatever_the_clock_does(clock: list[int]) -> None:
    """A beat can say "all leases up to this one" even if the clock is set back in between."""
    readings = iter(clock)
    draw = LeaseIds(lambda: next(readings))
    leases = [draw() for _ in clock]
    assert leases == sorted(set(leases))
    assert [uuid.UUID(lease).int for lease in leases] == sorted(uuid.UUID(x).int for x in leases)
    assert {(uuid.UUID(lease).version, uuid.UUID(lease).variant) for lease in leases} == {
        (7, uuid.RFC_4122)
    }


def test_lease_ids_of_two_agents_differ() -> None:
    """Agents that start in the same millisecond do not draw the same id."""
    assert LeaseIds(lambda: 0)() != LeaseIds(lambda: 0)()


def test_message_is_written_with_what_it_holds() -> None:
    """Messages within messages become objects, tuples become lists."""
    request = Request(1, (Report(2, 3, "lease", DONE, result={"é": [1.5, None]}),), want=4)
    written = json.loads(dumps(request))
    assert written["want"] == 4
    assert written["reports"][0]["result"] == {"é": [1.5, None]}
    assert json.loads(dumps(Heartbeat(1, (Held(2, 3, "lease"),))))["held"] == [
        {"campaign": 2, "task": 3, "lease": "lease"}
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, Path("/"), object()])
def test_value_that_json_cannot_express_is_refused(value: object) -> None:
    """A result that the queue could not store never becomes a message."""
    with pytest.raises((TypeError, ValueError)):
        dumps(Report(1, 1, "lease", DONE, result={"value": value}))
