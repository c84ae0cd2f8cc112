"""Endpoints for everybody and for managers, and answers to requests that lead nowhere."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from taskq import Client
from taskq.db.gateway_queries import GatewayQueries
from taskq.files.blobs import DatabaseBlobs, GatewayBlobs
from taskq.files.folder_store import FolderBlobs
from taskq.gateway.app import App
from taskq.gateway.manager_queries import ManagerQueries
from taskq.gateway.service import Service
from taskq.gateway.settings import Settings
from taskq.model.errors import NotFound
from taskq_agent.transport import MAX_BLOB_BYTES
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.command_line import CommandLine
from tests.integration.gateway.peers import Agent

GETS = ("/healthz", "/readyz", "/v1/openapi.json")


@pytest.mark.parametrize("path", GETS)
def test_head_is_answered_like_get_without_the_body(
    shared_gateway: GatewayProcess, path: str
) -> None:
    """What checks a gateway from outside uses either."""
    with shared_gateway.peer() as peer:
        whole, head = peer.ask("GET", path), peer.ask("HEAD", path)
    assert (whole.status, head.status, head.body) == (200, 200, b"")
    assert head.headers["content-length"] == str(len(whole.body))


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_wrong_method_gets_405_with_the_allowed_ones(
    shared_gateway: GatewayProcess, method: str
) -> None:
    """In Allow, as RFC 9110 requires."""
    reply = shared_gateway.ask(method, "/v1/exchange")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "path", ["/", "/v2/exchange", "/v1/exchange/", "/v1/blobs/", "//", "/%00", "/v1/../v1/exchange"]
)
def test_unknown_paths_are_not_found(shared_gateway: GatewayProcess, path: str) -> None:
    """There is no second spelling, and nobody is sent anywhere with a token."""
    reply = shared_gateway.ask("POST", path, body={})
    assert reply.status == 404
    assert reply.code == "not_found"


def test_document_names_every_path_and_method(
    shared_gateway: GatewayProcess, shared_queue: Client
) -> None:
    """What is served is described, but the document itself, and what is described is served."""
    reply = shared_gateway.ask("GET", "/v1/openapi.json")
    document = reply.json
    assert document["openapi"].startswith("3.1")
    described = {
        (path, method.upper())
        for path, operations in document["paths"].items()
        for method in operations
    }
    blobs = DatabaseBlobs(shared_queue.database)
    service = Service(shared_queue.database, Settings(), lambda: 0)
    queries = ManagerQueries(shared_queue.database)
    served = App(service, shared_queue.database, blobs, queries).routes.declared
    assert {(method, path) for path, method in described} | {("GET", "/v1/openapi.json")} == {
        *served
    }


def test_creating_a_token_prints_the_checksum_of_the_agent_file(
    shared_gateway: GatewayProcess, dsn: str, tmp_path: Path
) -> None:
    """As sha256sum takes it, of bytes that another process has built."""
    file = tmp_path / "taskq-agent.pyz"
    file.write_bytes(shared_gateway.ask("GET", "/taskq-agent.pyz").body)
    served = shared_gateway.ask("GET", "/taskq-agent.pyz.sha256").body.decode()
    line = CommandLine(dsn)
    line("campaign", "create", "/c")
    words = ("token", "create", "t", "--campaign", "/c", "--to", tmp_path / "token")
    printed = re.search(r"echo '(.*)' \| sha256sum --check", line(*words, "--kind", "site").stderr)
    assert printed
    assert printed[1] == served.strip()

    def check() -> int:
        words = ["sha256sum", "--check", "--status"]
        done = subprocess.run(words, check=False, input=served, cwd=tmp_path, text=True)
        return done.returncode

    assert check() == 0
    file.write_bytes(file.read_bytes() + b" ")
    assert check() != 0


@pytest.mark.thorough
def test_agent_file_runs(shared_gateway: GatewayProcess, tmp_path: Path) -> None:
    """A node fetches the agent from where it will work for."""
    reply = shared_gateway.ask("GET", "/taskq-agent.pyz")
    assert reply.headers["content-type"] == "application/zip"
    file = tmp_path / "taskq-agent.pyz"
    file.write_bytes(reply.body)
    empty = {"PATH": os.environ["PATH"]}
    said = subprocess.run(
        [sys.executable, "-I", str(file), "run", "--help"],
        capture_output=True,
        env=empty,
        check=True,
    )
    assert b"--gateway" in said.stdout


def test_metrics_count(realm: Realm, agent: Agent) -> None:
    """They are Prometheus' text, and go up."""

    def tasks() -> int:
        return realm.gateway.metric("tasks_total", realm.manager)

    before = tasks()
    realm.seed(3)
    agent.claim(3)
    assert tasks() == before + 3


def test_metrics_show_troubles_of_the_queue(realm: Realm) -> None:
    """Agents whose tasks are held, and campaigns that paused themselves."""

    def troubles() -> dict[str, float]:
        text = realm.gateway.ask("GET", "/metrics", token=realm.manager).body.decode()
        found = re.findall(r"^taskq_(agents_held|campaigns_paused) (.*)$", text, re.MULTILINE)
        return {name: float(number) for name, number in found}

    before = troubles()
    assert before["agents_held"] == 0
    realm.campaign.pause()
    assert troubles() == before, "somebody paused it"
    with realm.queue.database.transaction() as behind:
        why = "update taskq.campaign set paused_why = 'all failed' where path = "
        behind.script(f"{why}'{realm.path}'")  # other tests have paused some too
    assert troubles() == before | {"campaigns_paused": before["campaigns_paused"] + 1}


@pytest.mark.thorough
def test_trouble_of_agents_is_kept_and_counted(realm: Realm, agent: Agent) -> None:
    """As their last beats tell it; what is none is refused."""

    def beat(**body: object) -> int:
        return agent.peer.ask("POST", "/v1/beat", token=agent.token, body=body).status

    def slowed() -> int:
        return realm.gateway.metric("agents_slowed", realm.manager)

    trouble = {"failures": 8, "error_class": "no-scratch", "try_in_s": 4.5}
    assert beat(trouble={**trouble, "of a later release": 1}) == 200
    assert [agent.trouble for agent in realm.queue.agents(realm.path)] == [trouble]
    assert slowed() == 1
    for bad in (7, {"failures": "8"}, {"failures": -1}, {"failures": 8, "try_in_s": -1}):
        assert beat(trouble=bad) == 400
    assert slowed() == 1
    assert beat() == 200
    assert [agent.trouble for agent in realm.queue.agents(realm.path)] == [None]
    assert slowed() == 0


def test_manager_adds_steers_and_looks(realm: Realm) -> None:
    """As `curl --compressed` does, without taskq's library."""
    path, tasks = realm.path, json.dumps([{"key": key, "payload": {}} for key in ("a", "b")])

    def answered(query: str, **values: object) -> list[Any]:
        lines = gzip.decompress(realm.manage(query, **values).body).splitlines()
        return [json.loads(line) for line in lines][1:]

    for added in (2, 0):
        assert answered("submit", path=path, tasks=tasks, on_conflict="fail") == [[added]]
    for changed in (True, False):
        assert answered("set_status", path=path, status="paused") == [[changed]]
    assert realm.agent().claim() == []
    assert answered("set_status", path=path, status="open") == [[True]]
    (seen,) = answered("counts", path=path, depth=0)
    assert path in seen


class TestBlobs:
    """Files by their digest."""

    def test_blob_is_given_as_it_was_taken(self, realm: Realm, agent: Agent) -> None:
        """Byte for byte, whole or from a place on."""
        data = os.urandom(100_000)
        path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"
        assert agent.peer.ask("PUT", path, token=agent.token, body=data).status == 204
        assert agent.peer.ask("PUT", path, token=agent.token, body=data).status == 204
        ask, token = realm.gateway.ask, realm.manager
        assert ask("GET", path, token=token).body == data
        rest = ask("GET", path, token=token, headers=("range: bytes=99000-",))
        assert (rest.status, rest.body) == (206, data[99_000:])
        assert rest.headers["content-range"] == "bytes 99000-99999/100000"
        beyond = ask("GET", path, token=token, headers=("range: bytes=100000-",))
        assert (beyond.status, beyond.code) == (416, "no_such_part")
        assert beyond.headers["content-range"] == "bytes */100000"

    def test_other_bytes_than_the_digest_says_are_refused(self, agent: Agent) -> None:
        """Nobody can put something in the place of something else."""
        path = f"/v1/blobs/{hashlib.sha256(b'this').hexdigest()}"
        assert agent.peer.ask("PUT", path, token=agent.token, body=b"that").status == 422

    @pytest.mark.parametrize("digest", ["x", "..", "%2e%2e%2fetc", "A" * 64, "0" * 65, "%00" * 64])
    def test_malformed_digest_is_refused(self, realm: Realm, digest: str) -> None:
        """It would become the name of a file."""
        path = f"/v1/blobs/{digest}"
        for method, body in (("PUT", b"x"), ("GET", None)):
            reply = realm.gateway.ask(method, path, token=realm.manager, body=body)
            assert reply.status in {400, 404, 422}

    def test_blob_beyond_the_limit_is_refused_unread(self, agent: Agent) -> None:
        """413 from what its length says alone."""
        head = (f"content-length: {MAX_BLOB_BYTES + 1}",)
        path = f"/v1/blobs/{'0' * 64}"
        reply = agent.peer.ask("PUT", path, token=agent.token, body=b"", headers=head)
        assert (reply.status, reply.code) == (413, "too_large")


@pytest.mark.thorough
def test_no_more_of_a_blob_is_read_than_is_asked_for(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Its head, or some bytes of it, cost what they are, however large it is."""
    digest, size = FolderBlobs(tmp_path).put([os.urandom(32 << 20)])
    gateway = start_gateway("--blobs", tmp_path)
    realm, path = Realm(queue, gateway), f"/v1/blobs/{digest}"
    assert gateway.ask("HEAD", path, token=realm.manager).status == 200
    before = gateway.bytes_read()
    head = gateway.ask("HEAD", path, token=realm.manager)
    assert (head.status, head.headers["content-length"]) == (200, str(size))
    for place, length in (
        ("1-1000", 1_000),
        (f"{size - 9}-{size + 9}", 9),
        (f"{size - 1}-", 1),
    ):
        part = gateway.ask("GET", path, token=realm.manager, headers=(f"range: bytes={place}",))
        assert (part.status, len(part.body)) == (206, length)
    with closing(GatewayQueries(gateway.url, realm.manager, patience_s=0)) as queries:
        blobs = GatewayBlobs(queries)
        assert blobs.size(digest) == size
        assert len(b"".join(blobs.read(digest, 5, 105))) == 100
        with pytest.raises(NotFound, match="no blob 0000"):
            blobs.size("0" * 64)
    assert gateway.bytes_read() < before + (1 << 20)
    for wrong in ("9-8", f"{size}-"):
        headers = (f"range: bytes={wrong}",)
        assert gateway.ask("GET", path, token=realm.manager, headers=headers).status == 416


def test_answers_are_json_that_others_can_read(realm: Realm, agent: Agent) -> None:
    """A payload comes back as it was given, whatever it holds."""
    payload = {"text": 'ü"\\/\u2028\U0001f9ec\x7f', "numbers": [0, -1, 1.5, 1e15, 2**53 + 1]}
    realm.campaign.seed([payload])
    (task,) = agent.claim()
    assert task["payload"] == json.loads(json.dumps(payload))
