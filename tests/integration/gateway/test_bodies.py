"""The gateway refuses malformed bodies, and takes the contents of others as plain values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from taskq.gateway.messages import MAX_BODY_BYTES, MAX_EXCHANGE_BYTES
from taskq_agent import held_claims
from taskq_agent.protocol import DONE, FAILED, MAX_CLAIM, MAX_RESULT_BYTES, MAX_TAIL_BYTES
from tests.fixtures.gateways import Realm
from tests.helpers.variants import rest_thorough
from tests.integration.gateway.peers import Agent, Reply, hello, report_of, request_bytes

#: A lease id that nobody holds.
LEASE = "01890a5d-ac96-774b-bcce-b302099a8057"
#: The same request, made unusual: it is then not served by the shortcut but by the application.
DETOURS: tuple[dict[str, Any], ...] = ({"headers": ("expect: 100-continue",)}, {"version": "1.0"})
NOT_JSON = {
    "nothing": b"",
    "blank": b" ",
    "text": b"hello",
    "half an object": b'{"want": 1',
    "half a string": b'{"lease": "0',
    "two objects": b"{}{}",
    "a comma too many": b'{"want": 1,}',
    "single quotes": b"{'want': 1}",
    "a comment": b"{} // none",
    "NaN": b'{"wait_s": NaN}',
    "infinity": b'{"lifetime_s": -Infinity}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "Latin-1": b'{"lease": "\xe9"}',
    "a raw NUL": b'{"lease": "\x00"}',
    "an escaped NUL": rb'{"lease": "\u0000"}',
    "a NUL in a name": rb'{"\u0000": 1}',
    "a NUL where nobody looks": rb'{"unknown": [{"x": "\u0000"}]}',
    "a lone surrogate": rb'{"lease": "\ud800"}',
    "surrogates the wrong way round": rb'{"unknown": "\udc00\ud800"}',
    "a deep array": b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a deep object": b'{"x":' * 100_000 + b"1" + b"}" * 100_000,
    "an open abyss": b"[" * 1_000_000,
}
WRONG_EXCHANGES: dict[str, Any] = {
    "no object": [],
    "null": None,
    "text": "exchange",
    "want less than nothing": {"want": -1, "lease": LEASE},
    "want too much": {"want": MAX_CLAIM + 1, "lease": LEASE},
    "want half a task": {"want": 0.5, "lease": LEASE},
    "want true": {"want": True, "lease": LEASE},
    "want as text": {"want": "1", "lease": LEASE},
    "want beyond all numbers": {"want": 10**400, "lease": LEASE},
    "lease that is none": {"want": 1, "lease": "lease"},
    "lease in another spelling": {"want": 1, "lease": LEASE.upper()},
    "lease and more": {"want": 1, "lease": LEASE + "\n"},
    "negative wait": {"wait_s": -1},
    "too long a wait": {"wait_s": 51},
    "reports that are none": {"reports": 1},
    "a report that is none": {"reports": [1]},
    "a report without fence": {"reports": [{"outcome": "done"}]},
}
FENCE = {"campaign": 1, "task": 1, "lease": LEASE}
WRONG_REPORTS: dict[str, Any] = {
    "no outcome": {},
    "unknown outcome": {"outcome": "lost"},
    "negative task": {"task": -1},
    "task beyond 64 bits": {"task": 2**63},
    "task of a thousand digits": {"task": 10**1_000},
    "result that is text": {"result": "x"},
    "result that is a list": {"result": [1]},
    "result too large": {"result": {"x": "a" * MAX_RESULT_BYTES}},
    "tail too long": {"tail": "a" * (MAX_TAIL_BYTES + 1)},
    "exit code beyond 32 bits": {"exit_code": 2**31},
    "phases as list": {"phases": [1]},
    "phase as text": {"phases": {"run_s": "1"}},
    "too many phases": {"phases": {str(n): 1.0 for n in range(51)}},
    "retry as text": {"retry": "no"},
}
#: What a decoder may pass over in a result, and no database keeps.
WRONG_RESULTS = {
    "bytes that are no UTF-8": b'{"a":"\xff\xfe"}',
    "a name that is no UTF-8": b'{"\xc3":1}',
    "an overlong slash": b'{"a":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "NaN": b'{"a":NaN}',
    "a number without end": b'{"a":' + b"9" * 140_000 + b"}",
    "a number beyond all": b'{"a":1e999999}',
    "a NUL": rb'{"a":"\u0000"}',
    "a lone surrogate": rb'{"a":"\udfff"}',
    "a control character": b'{"a":"\x01"}',
    "an abyss": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "more than 100 levels": b'{"a":' * 101 + b"1" + b"}" * 101,
}


def both_ways(agent: Agent, body: object) -> Reply:
    """Return the answer to an exchange, which must be the same on both ways to it."""
    gateway_port = agent.peer.socket.getpeername()[1]
    replies = []
    for unusual in ({}, *DETOURS):
        with type(agent.peer)(gateway_port) as peer:
            replies.append(
                peer.ask("POST", "/v1/exchange", token=agent.token, body=body, **unusual)
            )
    quick, *slow = replies
    for reply in slow:
        assert (reply.status, reply.body) == (quick.status, quick.body)
        assert reply.headers["content-type"] == quick.headers["content-type"]
    return quick


@pytest.mark.parametrize("body", rest_thorough(NOT_JSON.values(), 6), ids=NOT_JSON.keys())
def test_malformed_json_is_refused(agent: Agent, body: bytes) -> None:
    """400 with a reason, on both ways."""
    reply = both_ways(agent, body)
    assert (reply.status, reply.code) == (400, "malformed")


@pytest.mark.parametrize("body", WRONG_EXCHANGES.values(), ids=WRONG_EXCHANGES.keys())
def test_wrong_exchange_is_refused(agent: Agent, body: object) -> None:
    """400 with the place, on both ways; the session is as good as before."""
    reply = both_ways(agent, json.dumps(body).encode())
    assert (reply.status, reply.code) == (400, "malformed")
    assert agent.exchange().status == 200


@pytest.mark.parametrize("members", WRONG_REPORTS.values(), ids=WRONG_REPORTS.keys())
def test_wrong_report_is_refused(realm: Realm, agent: Agent, members: dict[str, Any]) -> None:
    """And with it the whole exchange: what is right in it is not half done."""
    realm.seed()
    (task,) = agent.claim()
    wrong = {**FENCE, **({"outcome": "done", **members} if members else {})}
    reply = both_ways(agent, json.dumps({"reports": [report_of(task), wrong]}).encode())
    assert (reply.status, reply.code) == (400, "malformed")
    assert realm.campaign.status().working == 1


@pytest.mark.parametrize("result", WRONG_RESULTS.values(), ids=WRONG_RESULTS.keys())
def test_result_that_cannot_be_kept_is_refused(realm: Realm, agent: Agent, result: bytes) -> None:
    """400 or 422: the agent must not try again for ever; its task is still its own."""
    realm.seed()
    (task,) = agent.claim()
    report = json.dumps(report_of(task, result={})).encode().replace(b"{}", result)
    reply = both_ways(agent, b'{"reports":[' + report + b"]}")
    assert reply.status in {400, 422}
    assert reply.code in {"malformed", "refused"}
    assert "/" not in reply.json["error"]["message"], "it tells where the database is"
    assert agent.report(task) == ["accepted"]


def test_one_bad_report_does_not_spoil_those_of_others(realm: Realm) -> None:
    """Of exchanges that arrive together, one is refused and the others are served."""
    realm.seed(9)
    agents = [realm.agent() for _ in range(9)]
    tasks = [agent.claim()[0] for agent in agents]
    bad = {"a": 0}
    for agent, task in zip(agents, tasks, strict=True):
        result = bad if task is tasks[4] else {}
        body = json.dumps({"reports": [report_of(task, result=result)]}).encode()
        body = body.replace(b'{"a": 0}', b'{"a": 1e999999}')
        agent.peer.send(request_bytes("POST", "/v1/exchange", token=agent.token, body=body))
    statuses = [agent.peer.reply().status for agent in agents]
    assert statuses == [200] * 4 + [400] + [200] * 4
    assert realm.campaign.status().done == 8


@pytest.mark.parametrize(
    ("path", "most"), [("/v1/exchange", MAX_EXCHANGE_BYTES), ("/v1/beat", MAX_BODY_BYTES)]
)
@pytest.mark.parametrize("unusual", [{}, *DETOURS], ids=("1.1", "expect", "1.0"))
def test_body_beyond_the_limit_is_refused_before_it_is_read(
    agent: Agent, path: str, most: int, unusual: dict[str, Any]
) -> None:
    """413 from what its length says, though not a byte of it has been sent."""
    headers = (*unusual.get("headers", ()), f"content-length: {most + 1}")
    options = {**unusual, "headers": headers}
    reply = agent.peer.ask("POST", path, token=agent.token, body=b"", **options)
    assert (reply.status, reply.code) == (413, "too_large")


@pytest.mark.parametrize("path", ["/v1/exchange", "/v1/beat"])
@pytest.mark.parametrize("size", [10 << 20, 20 << 20])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["whole", "chunked"])
def test_client_that_sends_far_too_much_gets_413(
    agent: Agent, path: str, size: int, is_chunked: bool
) -> None:
    """After a connection reset it would try again for ever."""
    headers = ("transfer-encoding: chunked",) if is_chunked else ()
    body = b"x" * size
    if is_chunked:
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)
    reply = agent.peer.ask("POST", path, token=agent.token, body=body, headers=headers)
    assert (reply.status, reply.code) == (413, "too_large")


@pytest.mark.thorough
def test_largest_exchange_is_taken_in(realm: Realm, agent: Agent) -> None:
    """1,000 reports of 8 kB are within the limits."""
    realm.seed(MAX_CLAIM)
    tasks = agent.claim_many(MAX_CLAIM)
    verdicts = agent.report(*tasks, result={"x": "a" * 7_000})
    assert verdicts == ["accepted"] * MAX_CLAIM


def test_1001_reports_are_too_many(agent: Agent) -> None:
    """An agent sends them in parts."""
    reply = both_ways(agent, {"reports": [report_of(FENCE)] * (MAX_CLAIM + 1)})
    assert (reply.status, reply.code) == (400, "malformed")


@pytest.mark.parametrize("members", [{"want": 1}, {"want": 1, "lease": ""}])
def test_claim_without_lease_id_is_refused(realm: Realm, agent: Agent, members: Any) -> None:
    """It could not be repeated."""
    realm.seed()
    assert both_ways(agent, members).status in {400, 422}
    assert realm.campaign.status().waiting == 1


@pytest.mark.parametrize("members", [{}, {"lease": ""}, {"reports": []}, {"want": 0}])
def test_exchange_for_nothing_is_answered(agent: Agent, members: Any) -> None:
    """There is nothing wrong with it."""
    assert both_ways(agent, members).status == 200


def test_repeated_exchange_gets_the_same_answer_on_both_ways(realm: Realm, agent: Agent) -> None:
    """Claims, and reports that are duplicates by now."""
    realm.seed(3)
    done, mine = agent.claim(2)
    assert agent.report(done) == ["accepted"]
    reply = both_ways(
        agent,
        {"reports": [report_of(done), report_of(FENCE)], "want": 2, "lease": mine["lease"]},
    )
    assert [ack["verdict"] for ack in reply.json["acks"]] == ["duplicate", "unknown"]
    assert [task["task"] for task in reply.json["tasks"]] == [mine["task"]]


@pytest.mark.parametrize("token", ["", "tqs_nobody's"])
@pytest.mark.parametrize("body", [b"{}", b"{", b"[" * 100_000])
def test_strangers_are_turned_away_on_both_ways(realm: Realm, token: str, body: bytes) -> None:
    """401 whatever they send: what strangers say is not even read."""
    agent = realm.agent()
    agent.token = token
    reply = both_ways(agent, body)
    assert (reply.status, reply.code) == (401, "unauthorized")


@pytest.mark.parametrize(
    "members",
    [
        {"key": "x"},
        {"key": None},
        {"campaign": ""},
        {"campaign": "no/path"},
        {"campaign": "/a//b"},
        {"campaign": "/" + "a" * 2_000},
        {"name": "a" * 201},
        {"name": "\x00"},
        {"pid": -1},
        {"pid": 2**31},
        {"slots": 0},
        {"slots": 10**9},
        {"offers": "gpu"},
        {"offers": ["a"] * 101},
        {"offers": ["\n"]},
        {"offers": [1]},
    ],
    ids=lambda members: repr(members)[:40],
)
def test_wrong_hello_is_refused(realm: Realm, members: dict[str, Any]) -> None:
    """And opens nothing."""
    body = hello(**{"campaign": realm.path, **members})
    reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=body)
    assert reply.status in {400, 403, 404, 422}
    assert reply.code in {"malformed", "refused", "forbidden", "not_found"}
    assert realm.queue.agents(realm.path) == []


@pytest.mark.parametrize(
    "members",
    [
        {"held": 1},
        {"held": [{"task": 1}]},
        {"held": [{**FENCE, "lease": "x"}]},
        {"held": [FENCE] * 10_001},
        {"pending": ["x"]},
        {"pending": [LEASE] * 101},
        {"drawn": "x"},
        {"drawn": None},
    ],
    ids=lambda members: repr(members)[:40],
)
def test_wrong_heartbeat_is_refused(agent: Agent, members: dict[str, Any]) -> None:
    """It would give up leases that the agent has."""
    body = {"drawn": LEASE, **members}
    reply = agent.peer.ask("POST", "/v1/beat", token=agent.token, body=body)
    assert (reply.status, reply.code) == (400, "malformed")


@pytest.mark.thorough
@pytest.mark.parametrize("members", [{}, {"drawn": ""}, {"held": []}])
def test_heartbeat_of_an_agent_that_has_claimed_nothing_is_answered(
    agent: Agent, members: dict[str, Any]
) -> None:
    """It has nothing to name, and no lease id yet."""
    assert agent.peer.ask("POST", "/v1/beat", token=agent.token, body=members).status == 200


@pytest.mark.parametrize(
    "task",
    [
        {},
        {"payload": 1},
        {"payload": None},
        {"payload": [{}]},
        {"payload": {}, "key": ""},
        {"payload": {}, "key": None},
        {"payload": {}, "key": "a" * 256},
        {"payload": {}, "key": "\x00"},
        {"payload": {"\x00": 1}},
        {"payload": {}, "priority": 10**9},
        {"payload": {"x": "a" * 70_000}},
    ],
    ids=lambda task: str(task)[:30],
)
def test_wrong_task_is_refused(realm: Realm, task: dict[str, Any]) -> None:
    """And nothing is added, right or not."""
    text = json.dumps([{"key": "right", "payload": {}}, {"key": "wrong", **task}])
    reply = realm.manage("submit", path=realm.path, tasks=text, on_conflict="fail")
    assert (reply.status, reply.json["error"]["code"]) == (422, "refused")
    assert realm.campaign.status().waiting == 0


STATEMENTS = (
    "'; drop schema taskq cascade; --",
    "$$; select pg_sleep(60); $$",
    "%s %(path)s %%",
    "{0} {path} ${PATH} $1",
    "\\'; copy taskq.token to program 'id' --",
    'a","outcome":"done","x":"',
    "{a,b} \\N \\.",
)


@pytest.mark.parametrize("text", STATEMENTS)
def test_words_of_a_hello_are_values(realm: Realm, text: str) -> None:
    """Name, host, site and release are shown as they were reported; a campaign is one or none."""
    said = {"name": text, "host": text, "site": text, "release": text[:50]}
    Agent.enrolled(realm.gateway.peer(), realm.site, {"campaign": realm.path, **said})
    (agent,) = realm.queue.agents(realm.path)
    assert (agent.agent, agent.host, agent.site, agent.release) == (text, text, text, text[:50])
    for wrong in ({"campaign": text}, {"key": text}, {"offers": [text]}):
        body = {**hello(realm.path), **wrong}
        reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=body)
        assert 400 <= reply.status < 500, reply


@pytest.mark.parametrize("outcome", [DONE, FAILED])
@pytest.mark.parametrize("text", STATEMENTS)
def test_words_of_a_report_are_values(realm: Realm, agent: Agent, text: str, outcome: str) -> None:
    """Result, error, its class, the tail and the names of phases come out as they went in."""
    realm.seed()
    (task,) = agent.claim()
    words = {"error": text, "error_class": text, "tail": text, "phases": {text: 1.5}}
    result = {"result": {text: text}} if outcome == DONE else {}
    report = report_of(task, outcome=outcome, retry=False, **words, **result)
    assert agent.exchange(reports=[report]).json["acks"][0]["verdict"] == "accepted"
    (attempt,) = realm.campaign.attempts(task["key"])
    assert attempt.phases == {text: 1.5}
    if outcome == DONE:
        assert attempt.result == {text: text}
    else:
        assert (attempt.error, attempt.error_class, attempt.tail) == (text, text, text)


@pytest.mark.parametrize("text", STATEMENTS)
def test_fence_that_is_none_is_refused(realm: Realm, agent: Agent, text: str) -> None:
    """In reports, claims and beats: ids are numbers and UUIDs before SQL sees them."""
    realm.seed()
    (task,) = agent.claim()
    for wrong in ({"lease": text}, {"task": text}, {"campaign": text}, {"outcome": text}):
        reply = agent.exchange(reports=[{**report_of(task), **wrong}])
        assert (reply.status, reply.code) == (400, "malformed")
    assert agent.exchange(want=1, lease=text).status == 400
    assert agent.report(task) == ["accepted"]


def test_heartbeat_may_name_as_many_claims_as_an_agent_holds(agent: Agent) -> None:
    """With the longest ids: batches of programs that take thousands of ligands at one start."""
    most = 2**63 - 1
    begun = [most - n for n in range(held_claims.MAX_BEGUN)]
    leases = [f"{LEASE[:-4]}{n:04x}" for n in range(held_claims.MAX_HELD_CLAIMS)]
    claims = [{"campaign": most, "lease": lease, "tasks": 1_000} for lease in leases]
    reply = agent.beat(claims=[claims[0] | {"begun": begun}, *claims[1:]])
    assert reply.status == 200, reply
    left = {record["lease"]: record.get("tasks", []) for record in reply.json["left"]}
    assert left == {lease: [] for lease in leases}  # it holds none of their tasks
