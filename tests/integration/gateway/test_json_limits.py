"""JSON that is small on the wire and large in PostgreSQL, sent with real tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from taskq.db.stored_json import UNREADABLE
from tests.fixtures.gateways import Realm
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile
from tests.integration.gateway.peers import Agent, fence
from tests.integration.gateway.test_manager_queries import asked, error

#: Numbers that PostgreSQL keeps in a few bytes, or Python does not read.
NUMBERS = {
    "large": "1e5000",
    "largest": "1e131000",
    "negative": "-1e5000",
    "small": "1e-5000",
    "in capitals": "1E+05000",
    "written out": "0." + "0" * 5_000 + "1",
    "whole": "7" * 5_000,
    "zero": "0e16000",
}
#: Status and code of what PostgreSQL refuses.
REFUSED = (422, "refused")
#: Most MiB by which a gateway may grow while it refuses something.
MOST_MIB = 64


@contextmanager
def bounded(realm: Realm) -> Iterator[None]:
    """Check that the gateway needs little memory, and that a healthy agent gets on meanwhile."""
    realm.seed(50)
    before = realm.gateway.memory_mb()
    peak, done = [before], [0]
    healthy = realm.agent()

    def work(ended: threading.Event) -> None:
        while True:
            peak[0] = max(peak[0], realm.gateway.memory_mb())
            tasks = [task for task in healthy.claim() if "n" in task["payload"]]
            if tasks and healthy.report(*tasks, result={"fine": 1}) == ["accepted"]:
                done[0] += 1
            if ended.is_set():
                return

    with meanwhile(work):
        yield
    assert done[0], "no healthy agent got on"
    assert peak[0] - before < MOST_MIB


def exchanged(agent: Agent, task: dict[str, object], result: str) -> tuple[int, str]:
    """Return status and text of the answer to a report whose result is JSON text."""
    report = json.dumps({**fence(task), "outcome": "done"})[:-1]
    body = f'{{"reports": [{report}, "result": {result}}}]}}'.encode()
    reply = agent.peer.ask("POST", "/v1/exchange", token=agent.token, body=body)
    return reply.status, reply.body.decode()


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_number_that_grows_is_no_result(realm: Realm, agent: Agent, number: str) -> None:
    """In an array, deep inside, and next to text with quotes that could hide it."""
    realm.seed()
    (task,) = agent.claim()
    for result in (
        f'{{"score": {number}}}',
        f'{{"a\\"": "\\\\", "score": [[{number}]]}}',
        f'{{"score":{number},"b": "\\\\\\"{{"}}',
    ):
        status, said = exchanged(agent, task, result)
        assert status == 400, said
        assert "digits" in said
    assert agent.report(task, result={"text": f", {number[:200]}"}) == ["accepted"]


def test_any_double_is_a_result(realm: Realm, agent: Agent) -> None:
    """Also the largest and the smallest, which PostgreSQL writes out."""
    values = [1.7976931348623157e308, -2.2250738585072014e-308, 5e-324, 1e300]
    realm.seed()
    (task,) = agent.claim()
    assert agent.report(task, result={"values": values}) == ["accepted"]
    (result,) = realm.campaign.results()
    assert [float(value) for value in result.result["values"]] == values


def test_many_numbers_that_grow_are_refused_by_their_size(realm: Realm, agent: Agent) -> None:
    """Each is allowed by itself; together they would be larger than a result may be."""
    realm.seed()
    (task,) = agent.claim()
    with bounded(realm):
        for number, count in (("1e5000", 1_000), ("1e340", 1_000), ("1e99", 40_000)):
            numbers = ",".join([number] * count)
            status, said = exchanged(agent, task, f'{{"many": [{numbers}]}}')
            assert (status, "at most" in said) == (400, True)
        assert exchanged(agent, task, '{"a":' * 120 + "1" + "}" * 120)[0] == 400
        assert exchanged(agent, task, f'{{"text": "{"x" * 300_000}"}}')[0] == 400


def submitted(realm: Realm, payload: str, token: str = "", count: int = 1) -> tuple[int, str]:
    """Return status and code of the answer to tasks that a manager's token seeds as JSON text."""
    tasks = ",".join(f'{{"key": "{n}", "payload": {payload}}}' for n in range(count))
    head = {"path": realm.path, "on_conflict": "skip"}
    body = f"{json.dumps(head)}\n[{tasks}]".encode()
    reply = asked(realm, "/v1/manage/submit?rest=tasks", body, token)
    return error(reply) if reply.status != 200 else (200, "")


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS)
def test_number_that_grows_is_no_payload(realm: Realm, number: str) -> None:
    """Nor a part of one, by any statement that adds tasks."""
    assert submitted(realm, f'{{"n": {number}}}') == REFUSED
    assert submitted(realm, f'{{"n": [{{"x": {number}}}]}}') == REFUSED
    assert realm.campaign.status().total == 0


@pytest.mark.thorough
def test_payloads_of_a_manager_are_bounded(realm: Realm) -> None:
    """By size, by size with numbers written out, and by depth; others claim meanwhile."""
    with bounded(realm):
        assert submitted(realm, f'{{"t": "{"x" * (7 << 20)}"}}') == REFUSED
        assert submitted(realm, f'{{"t": "{"x" * 70_000}"}}') == REFUSED
        assert submitted(realm, f'{{"n": [{",".join(["1e340"] * 1_000)}]}}') == REFUSED
        assert submitted(realm, f'{{"n": [{",".join(["1e5000"] * 6_000)}]}}', count=20) == REFUSED
        for deep in (65, 500, 100_000):
            payload = f'{{"n": {"[" * deep}{"]" * deep}}}'
            assert submitted(realm, payload) == REFUSED
    assert submitted(realm, f'{{"t": "{"x" * 60_000}", "n": {"[" * 63}{"]" * 63}}}') == (200, "")


def test_parameters_and_handlers_are_bounded(realm: Realm) -> None:
    """Those that a submitter's token stores, which agents and pages read."""
    token = realm.token("submitter")

    def changed(**spec: str) -> tuple[int, str]:
        members = ", ".join(f'"{name}": {value}' for name, value in spec.items())
        body = json.dumps({"path": realm.path, "spec": f"{{{members}}}"}).encode()
        reply = asked(realm, "/v1/manage/change_campaign", body, token)
        return error(reply) if reply.status != 200 else (200, "")

    handler = '{"command": ["true"], "x": %s}'
    for number in NUMBERS.values():
        assert changed(params=f'{{"a": {number}}}') == REFUSED
        assert changed(handler=handler % number) == REFUSED
    assert changed(params=f'{{"a": "{"x" * 300_000}"}}') == REFUSED
    assert changed(handler=handler % f'"{"x" * 70_000}"') == REFUSED
    assert changed(params=f'{{"a": {"[" * 200}{"]" * 200}}}') == REFUSED
    assert changed(params='{"a": 1e-300}') == (200, "")
    assert realm.campaign.spec().params == {"a": 1e-300}


@pytest.mark.thorough
def test_large_payloads_share_the_bytes_of_a_claim(realm: Realm, agent: Agent) -> None:
    """A claim gets so much of them that its answer stays small, and none gets lost."""
    payload = f'{{"t": "{"x" * 60_000}"}}'
    for first in (0, 100):
        tasks = ",".join(f'{{"key": "{first + n}", "payload": {payload}}}' for n in range(100))
        body = json.dumps({"path": realm.path, "on_conflict": "skip"}) + f"\n[{tasks}]"
        assert asked(realm, "/v1/manage/submit?rest=tasks", body.encode()).status == 200
    counts = []
    while tasks := agent.claim(want=1_000):
        counts.append(len(tasks))
        assert agent.report(*tasks) == ["accepted"] * len(tasks)
    assert sum(counts) == 200
    assert 1 < max(counts) <= 4_194_304 // 60_000


def plant(realm: Realm, count: int) -> None:
    """Add tasks, and give some of them payloads that nobody could seed."""
    realm.seed(count)
    with psycopg.connect(realm.gateway.dsn, autocommit=True) as postgres:
        postgres.execute(
            """update taskq.spec set payload = '{"n": 1e5000}' where (campaign_id, task_id) in (
                   select campaign_id, task_id from taskq.spec where campaign_id = %s
                    order by task_id desc limit %s)""",
            [realm.campaign.campaign_id, count],
        )


def spoil(realm: Realm, task: int) -> None:
    """Give a task a result that nobody could report."""
    with psycopg.connect(realm.gateway.dsn, autocommit=True) as postgres:
        postgres.execute(
            """update taskq.attempt set result = '{"x": -1e5000}'
                where campaign_id = %s and task_id = %s""",
            [realm.campaign.campaign_id, task],
        )


def remote(realm: Realm, folder: Path) -> CommandLine:
    """Return the command line with a manager's token, at the gateway."""
    file = folder / "token"
    file.touch(0o600)
    file.write_text(realm.manager)
    address = {"TASKQ_URL": realm.gateway.url, "TASKQ_TOKEN_FILE": str(file)}
    return CommandLine("", address=address)


@pytest.mark.thorough
def test_unreadable_stored_payload_fails_alone(realm: Realm, agent: Agent, tmp_path: Path) -> None:
    """Forty such payloads fail for good; one such result does not hide the others."""
    with bounded(realm):
        plant(realm, 40)
        realm.gateway.expected.append("fails for good, since its payload cannot be read")
        for _ in range(60):
            agent.report(*agent.claim(want=8), result={"x": 2})
        failed = list(realm.campaign.tasks("failed"))
        assert len(failed) == 40
    (attempt,) = realm.campaign.attempts(failed[0].key)
    assert attempt.error_class == "payload-unreadable"
    assert "digits" in (attempt.error or "")

    ended = [result for result in realm.campaign.results() if result.result == {"x": 2}]
    spoil(realm, ended[0].task_id)
    for queue in (CommandLine(realm.gateway.dsn), remote(realm, tmp_path)):
        shown = queue("export", realm.path)
        lines = [json.loads(line) for line in shown.stdout.splitlines()]
        (odd,) = [line for line in lines if UNREADABLE in line["result"]]
        assert odd["key"] == ended[0].key
        assert len(lines) == realm.campaign.status().done
        (warning,) = shown.stderr.splitlines()
        assert realm.path in warning
        assert ended[0].key in warning
        assert "seed the task again" in warning
