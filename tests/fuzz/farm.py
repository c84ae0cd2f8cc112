"""What hostile requests are sent to, and what must hold of the answers and afterwards.

A real gateway with a keeper serves three campaigns. `/hostile` has one below it for each
conversation, with tokens and sessions of its own, so that each begins alike. In `/healthy` an agent
works all the while. In `/idle` nobody does anything, and it must stay as it is.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
from psycopg.rows import dict_row

from taskq import Campaign, Client
from taskq.files.blobs import DatabaseBlobs
from taskq.gateway.openapi import Failed
from taskq_agent.archive import CHECKPOINT, OUTPUT, heading
from taskq_agent.lease_ids import new_lease
from tests.fixtures.gateways import GatewayProcess
from tests.fuzz.wire import REFERENCE, Ask, decoded
from tests.helpers.audit import assert_audit_is_clean
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.meanwhile import meanwhile, repeated
from tests.helpers.postgres import assert_counts_are_true
from tests.integration.gateway.peers import Agent, Peer, Reply, fence, report_of, request_bytes

#: Seconds that an answer may take: far more than it does, since the machine may be busy.
LONGEST_S: Final = 30.0
#: MiB by which the gateway may grow.
MOST_MIB: Final = 64
#: Conversations after which what must hold afterwards is looked at, and before which the gateway
#: reaches its usual size.
EVERY: Final = 200
WARM: Final = 20

#: What the gateway may log: what the keeper does with campaigns that their manager has spoilt.
EXPECTED: Final = (r"the campaign /hostile/\S+ has paused itself",)
#: Errors that are no right answer though they are documented: nothing is out of order here.
_WRONG: Final = frozenset({"defect", "unreadable", "unavailable", "draining", "upgraded"})
_GZIP: Final = 31


class Farm:
    """Campaigns at a gateway; `say` sends a conversation and checks each answer."""

    def __init__(self, queue: Client, gateway: GatewayProcess, folder: Path) -> None:
        """folder: for files."""
        self._queue = queue
        self._gateway = gateway
        self._folder = folder
        self._input = folder / "input"
        self._input.write_bytes(b"input" * 1_000)
        self._numbers = count()
        self._said = 0
        self._grown_from: float | None = None
        self.known: dict[str, list[str]] = {}
        self._tokens: dict[str, str] = {}
        self._healthy = servable(queue, "/healthy")
        self._idle = servable(queue, "/idle")
        servable(queue, "/hostile")
        self._worker = self._agent(self._token("site", "/healthy"), "/healthy", host="victim")
        self._held = self._leave_idle()
        self._as_it_was = self._look(self._idle)
        self._ended = self._agent(self._token("site", "/hostile"), "/hostile")
        self._ended.peer.ask("DELETE", "/v1/session", token=self._ended.token)

    def _token(self, kind: Any, path: str) -> str:
        return self._queue.tokens.create(kind, f"{kind}-{next(self._numbers)}", [path])[0]

    def _agent(self, site: str, path: str, **hello: Any) -> Agent:
        return Agent.enrolled(self._gateway.peer(), site, {"campaign": path, **hello})

    def _leave_idle(self) -> dict[str, Any]:
        """Leave a task that is done, one at work and one that waits; return the one at work."""
        self._idle.seed({"n": n} for n in range(3))
        agent = self._agent(self._token("site", "/idle"), "/idle")
        done, held = agent.claim_many(2)
        assert agent.report(done, result={"score": 1}) == ["accepted"]
        return held

    def _look(self, campaign: Campaign) -> list[Any]:
        """Return all that anybody can read of a campaign."""
        tasks = list(campaign.tasks())
        attempts = [campaign.attempts(task.key) for task in tasks]
        parts = (campaign.spec(), campaign.inputs(), campaign.status(), campaign.children())
        return [*parts, tasks, attempts, [*campaign.results()], [*campaign.failures()]]

    # One conversation

    @contextmanager
    def _hostile(self) -> Iterator[None]:
        """Make the campaign, tokens and sessions of a conversation."""
        path = f"/hostile/{next(self._numbers)}"
        campaign = servable(
            self._queue, path, tasks=6, output_bytes=100_000, checkpoint_bytes=100_000
        )
        kinds = ("site", "manager", "submitter")
        self._tokens = {kind: self._token(kind, path) for kind in kinds}
        campaign.add_input(self._input, blobs=DatabaseBlobs(self._queue.database))
        agents = [self._agent(self._tokens["site"], path, host="hostile") for _ in range(2)]
        self._tokens |= {"none": "", "made up": "tqm_made-up", "ended": self._ended.token}
        self._tokens |= {f"session.{n}": agent.token for n, agent in enumerate(agents)}
        fences = [*agents[0].claim_many(2), *agents[1].claim_many(1), self._held]
        fences.append({"campaign": 2**40, "task": 1, "lease": new_lease()})
        self._contents = [
            heading(OUTPUT, fences[0]["campaign"], fences[0]["task"]) + b"x",
            heading(CHECKPOINT, fences[0]["campaign"], fences[0]["task"]) + b"x",
            self._input.read_bytes(),
            b"",
            path.encode() * 20_000,
        ]
        self.known = {
            "path": [*[path] * 8, f"{path}/new", "/healthy", "/idle", "/hostile", "/"],
            "session": [str(agent.session) for agent in (*agents, self._worker, self._ended)],
            "campaign": [str(served.campaign_id) for served in (campaign,) * 8]
            + [str(campaign.campaign_id) for campaign in (self._healthy, self._idle)],
            "task": [str(task.task_id) for task in campaign.tasks()] + [str(self._held["task"])],
            "lease": [new_lease(), agents[0].drawn, agents[1].drawn, self._held["lease"]],
            "key": ["new", *(task.key for task in campaign.tasks())],
            "digest": [hashlib.sha256(data).hexdigest() for data in self._contents] + ["0" * 64],
        }
        for name in fence(self._held):
            self.known[f"{name}_of"] = [str(record[name]) for record in fences]
        try:
            yield
        finally:
            for agent in agents:
                agent.peer.ask("DELETE", "/v1/session", token=agent.token)
                agent.peer.close()

    def _filled(self, text: bytes) -> bytes:
        """Return text with what is known in the place of references."""

        def found(match: re.Match[bytes]) -> bytes:
            kind, number = match[1].decode(), int(match[2])
            if kind == "content":
                return self._contents[number % len(self._contents)]
            some = self.known[kind]
            return some[number % len(some)].encode()

        return REFERENCE.sub(found, text)

    def say(self, asks: list[Ask]) -> None:
        """Send requests one after the other, and check each answer; after many look at the farm."""
        with self._hostile():
            peer = self._gateway.peer()
            for ask in asks:
                reply = self._answer(peer, ask)
                if reply.headers.get("connection") == "close":
                    peer.close()
                    peer = self._gateway.peer()
            peer.close()
        self._said += 1
        if self._said == WARM:
            self._grown_from = self._gateway.memory_mb()
        if self._said % EVERY == 0:
            self.check()

    def _answer(self, peer: Peer, ask: Ask) -> Reply:
        body = ask.body
        if body is not None:
            body = self._filled(body)
            if ask.cut is not None:
                body = gzip.compress(body)
                body = body[: len(body) - ask.cut]
        request = request_bytes(
            ask.method,
            self._filled(ask.path.encode()).decode(),
            token=self._tokens[ask.credential],
            body=body,
            headers=ask.headers if ask.cut is None else ("content-encoding: gzip",),
        )
        begun = time.monotonic()
        peer.send(request)
        reply = peer.reply(head=ask.method == "HEAD")
        took_s = time.monotonic() - begun
        shown = f"{request[:2_000]!r} -> {reply.status} {reply.body[:500]!r}"
        assert took_s < LONGEST_S, shown
        self._check_answer(ask, reply, shown)
        assert not self.strange_lines(), shown
        return reply

    def _check_answer(self, ask: Ask, reply: Reply, shown: str) -> None:
        """Check that an answer is one that the OpenAPI document names."""
        if reply.status // 100 == 2:
            right = (
                {204}
                if ask.endpoint.gives is None
                else {200, 206}
                if ask.endpoint.in_parts
                else {200}
            )
            assert reply.status in right, shown
            if ask.method != "HEAD" and reply.status != 204:
                self._learn(ask, reply)
            return
        assert 400 <= reply.status < 500 or reply.status == 503, shown
        assert ("retry-after" in reply.headers) == (reply.status == 503), shown
        if ask.method != "HEAD":
            error = msgspec.json.decode(reply.body, type=Failed).error
            assert reply.headers["content-type"] == "application/json", shown
            assert error.message, shown
            assert error.code not in _WRONG, shown

    def _learn(self, ask: Ask, reply: Reply) -> None:
        """Check the body of a good answer; keep the attempts that it gives."""
        answer = decoded(ask.endpoint, reply.body)
        kind = reply.headers["content-type"]
        if kind == "application/json":
            json.loads(reply.body)  # also for what reads it without msgspec
        elif kind == "application/jsonl":
            for line in zlib.decompress(reply.body, _GZIP).splitlines():
                assert isinstance(json.loads(line), list)
        for task in getattr(answer, "tasks", ()):
            for name in fence(self._held):
                self.known[f"{name}_of"].insert(0, str(getattr(task, name)))

    def strange_lines(self) -> list[str]:
        """Return what the gateway has logged that it should not."""
        known = re.compile("|".join(EXPECTED))
        return [line for line in self._gateway.errors().splitlines() if not known.search(line)]

    # All the while, and afterwards

    @contextmanager
    def working(self) -> Iterator[None]:
        """Have the healthy agent work meanwhile; each of its tasks and reports must be right."""
        tasks: list[dict[str, Any]] = []
        turns = count(1)

        def turn() -> None:
            number = next(turns)
            if number % 50 == 1:
                self._healthy.seed({"n": f"{number}-{n}"} for n in range(60))
            if number % 5 == 0:
                assert self._worker.beat(*tasks).status == 200
            begun = time.monotonic()
            reports = [report_of(task, result={"n": number}) for task in tasks]
            reply = self._worker.exchange(reports=reports, want=1, lease=self._worker.lease())
            assert time.monotonic() - begun < LONGEST_S
            assert reply.status == 200, reply
            assert [ack["verdict"] for ack in reply.json["acks"]] == ["accepted"] * len(tasks)
            tasks[:] = reply.json["tasks"]
            assert len(tasks) == 1, reply

        with meanwhile(repeated(turn, every_s=0.02)):
            yield
        done = next(turns) - 2
        found = self._healthy.status().done
        assert (found, found > 0) == (done, True)

    def check(self) -> None:
        """Check what must hold after any number of reports."""
        if self._grown_from is not None:
            assert self._gateway.memory_mb() - self._grown_from < MOST_MIB
        assert self._look(self._idle) == self._as_it_was
        assert_audit_is_clean(self._queue, "/")
        with psycopg.connect(self._gateway.dsn, autocommit=True, row_factory=dict_row) as postgres:
            assert_counts_are_true(postgres)
        hostile = self._queue.campaign("/hostile")
        assert len([*hostile.results()]) == hostile.status().done
        for _ in (*hostile.tasks(), *hostile.failures()):
            pass

    def check_exports(self) -> None:
        """Check that the results of all campaigns can be exported, and none is missing."""
        line = CommandLine(self._gateway.dsn)
        for path in ("/hostile", "/healthy", "/idle"):
            for kind in ("jsonl", "csv"):
                file = self._folder / f"results.{kind}"
                shown = line("export", path, "--to", file)
                assert (shown.exit_code, "Traceback" in shown.stderr) == (0, False), shown.stderr
                if kind == "jsonl":
                    records = [json.loads(line) for line in file.read_text().splitlines()]
                    assert len(records) == self._queue.campaign(path).status().done
