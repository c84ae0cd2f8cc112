"""Agents and submitters behind something that answers in the gateway's place."""

from __future__ import annotations

import os
import re
import socket
import time
from pathlib import Path

import pytest

from taskq import Campaign, CampaignSpec, Client, Handler, connect
from taskq.db.gateway_queries import GatewayQueries
from taskq.files.blobs import open_blobs
from taskq.model.errors import Forbidden, NotFound, Unavailable
from taskq.results.otlp import Receiver
from taskq_agent.protocol import PROTOCOL
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway
from tests.helpers.waiting import BUSY_S, wait_until
from tests.helpers.way import NGINX_413, PORTAL, Page, Way, limit_of
from tests.helpers.worker_node import WorkerNode
from tests.integration.gateway.peers import request_bytes
from tests.integration.gateway.site import Site

#: A command whose result is as long as its task says.
_SCRIPT = r"""exec > "$TASKQ_RESULT"
printf '\173"x":"%s' "$2"; head -c "$1" /dev/zero | tr '\0' a; printf '"\175'"""
WRITES = ("sh", "-c", _SCRIPT, "sh", "{n}", "{w}")
LATER_S = 90.0
MEGABYTE = 1_000_000


@pytest.fixture
def gateway(start_gateway: StartGateway) -> GatewayProcess:
    return start_gateway("--lease", 12)


@pytest.fixture
def realm(queue: Client, gateway: GatewayProcess) -> Realm:
    return Realm(queue, gateway)


def writing(queue: Client, realm: Realm, *tasks: tuple[int, str]) -> Campaign:
    """Return a campaign whose results have these lengths and begin with these words."""
    campaign = queue.create_campaign(
        CampaignSpec(f"{realm.path}/c", handler=Handler("command", argv=WRITES))
    )
    campaign.seed({"n": length, "w": words} for length, words in tasks)
    return campaign


def explained(campaign: Campaign, code: str) -> str:
    """Return the text of a reason, once `explain` gives it."""
    texts: dict[str, str] = {}

    def is_given() -> bool:
        texts.update({reason.code: reason.text for reason in campaign.explain().reasons})
        return code in texts

    wait_until(is_given, timeout_s=LATER_S)
    return texts[code]


def counts(campaign: Campaign) -> tuple[int, int, int]:
    status = campaign.status()
    return status.done, status.failures, status.failed


@pytest.mark.thorough
def test_limit_on_bodies_destroys_no_result(
    queue: Client, realm: Realm, way: Way, node: WorkerNode
) -> None:
    """Computed once, kept until somebody raises the limit, which `explain` names."""
    campaign = writing(queue, realm, (3 * MEGABYTE, "a"), (10, "b"), (20, "c"))
    way.judge = limit_of(MEGABYTE)
    with node.at_work(way.url, slots=2, spool="spool", until_empty=True) as agent:
        wait_until(lambda: counts(campaign) == (2, 0, 0), timeout_s=LATER_S)
        text = explained(campaign, "warning-transfer")
        assert "413 from nginx/1.22.1" in text
        assert "client_max_body_size" in text
        way.judge = lambda *_: None
        agent.wait(LATER_S)
    assert counts(campaign) == (3, 0, 0)
    assert [task.attempt for task in campaign.tasks()] == [1, 1, 1]


@pytest.mark.thorough
def test_agent_that_can_keep_a_large_result_nowhere_says_so(
    queue: Client, realm: Realm, way: Way, node: WorkerNode
) -> None:
    """And what answered in the gateway's place; the attempt has it too."""
    campaign = writing(queue, realm, (3 * MEGABYTE, "a"))
    way.judge = limit_of(MEGABYTE)
    node.environment["XDG_CACHE_HOME"] = os.devnull
    with node.at_work(way.url) as agent:
        explained(campaign, "warning-transfer")
        agent.terminate()
        _, log = agent.communicate(timeout=LATER_S)
    lost = "stopped by its agent; until then: .*413 from nginx/1.22.1.* client_max_body_size"
    assert re.search(f"the result is lost, and its task runs again: {lost}", log), log
    (task,) = campaign.tasks()
    (attempt,) = campaign.attempts(task.key)
    assert re.match(lost, attempt.error or ""), attempt
    assert node.run(realm.gateway.url, until_empty=True).code == 0
    assert counts(campaign) == (1, 0, 0)


@pytest.mark.thorough
def test_filter_that_dislikes_a_result_holds_up_no_other(
    queue: Client, realm: Realm, way: Way, node: WorkerNode
) -> None:
    """A web firewall: the disliked report stays with its agent, unchanged."""
    words = ["<script>", *"abcdef"]
    campaign = writing(queue, realm, *((n, word) for n, word in enumerate(words)))
    page = Page(403, b"<html><title>Request Rejected</title></html>", ())
    way.judge = lambda _method, path, body: (
        page if path == "/v1/exchange" and b"<script>" in body and b'"outcome"' in body else None
    )
    with node.at_work(way.url, slots=1, spool="spool") as agent:
        wait_until(lambda: counts(campaign) == (6, 0, 0), timeout_s=LATER_S)
        text = explained(campaign, "warning-withheld")
        assert "403 from something else, not from a gateway" in text
        assert "Request Rejected" in text
        assert agent.poll() is None
        agent.terminate()
        _, log = agent.communicate()
    assert "the next agent with this --spool sends them" in log
    assert any(b"<script>" in file.read_bytes() for file in node.folder.glob("spool/*"))
    ran = node.run(realm.gateway.url, spool="spool", until_empty=True)
    assert ran.code == 0, ran.err
    assert counts(campaign) == (7, 0, 0)
    assert campaign.status().losses == 0


@pytest.mark.thorough
def test_filter_that_dislikes_a_payload_does_not_stop_its_agents(
    queue: Client, realm: Realm, way: Way, node: WorkerNode
) -> None:
    """Its task waits again; the agent gets the others one by one."""
    campaign = writing(
        queue, realm, *((n, word) for n, word in enumerate(["a", "../../x", *"bcd"]))
    )
    page = Page(406, b"<h1>Not Acceptable!</h1>", (("Server", "Apache"),))
    way.judge_answer = lambda _method, path, body: (
        page if path == "/v1/exchange" and b"../../x" in body else None
    )
    with node.at_work(way.url, slots=1, spool="spool") as agent:
        wait_until(lambda: way.pages >= 3, timeout_s=LATER_S)
        wait_until(lambda: campaign.status().working == 0, timeout_s=LATER_S)
        assert agent.poll() is None
    assert counts(campaign)[1:] == (0, 0)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "page",
    [
        PORTAL,
        NGINX_413,
        Page(200, b'{"session": 1, "heartbeat_s": 1, "lease_s": 4, "token": "t"}'),
        Page(204),
        Page(302, b"", (("Location", "https://login.example.org/"),)),
        Page(401, b'{"error": {"code": "unauthorized", "message": "who?"}}'),
        Page(403, b'{"error": {"code": 403, "message": "PERMISSION_DENIED"}}'),
        Page(404, b"404 page not found\n"),
        Page(410, b""),
        Page(429, b"slow down", (("Retry-After", "0"),)),
        Page(503, b"<h1>503 Service Unavailable</h1>No server is available"),
    ],
    ids=lambda page: f"{page.status}-{len(page.body)}",
)
def test_agent_goes_on_whatever_answers_at_first(
    queue: Client, realm: Realm, way: Way, node: WorkerNode, page: Page
) -> None:
    """It says what answers, and works as soon as the gateway does."""
    campaign = writing(queue, realm, (1, "a"))
    way.judge = lambda *_: page
    with node.at_work(way.url, until_empty=True) as agent:
        wait_until(lambda: way.pages >= 3, timeout_s=LATER_S)
        way.judge = lambda *_: None
        _, log = agent.communicate(timeout=LATER_S)
    assert agent.returncode == 0, log
    assert counts(campaign) == (1, 0, 0)
    assert f"{way.url}: {page.status} from " in log


@pytest.mark.thorough
def test_wrong_token_ends_an_agent_at_once_where_the_gateway_says_so(
    realm: Realm, way: Way, node: WorkerNode
) -> None:
    """With the gateway's words, also through a proxy."""
    node.token.write_text(realm.site[:-1] + ("a" if realm.site[-1] != "a" else "b"))
    began = time.monotonic()
    ran = node.run(way.url)
    assert time.monotonic() - began < BUSY_S
    assert (ran.code, "401 unauthorized" in ran.err) == (77, True), ran.err


def at(way: Way, realm: Realm, tmp_path: Path, *, patience_s: float | None = None) -> Client:
    """Return a submitter's client behind the way. patience_s: None for the usual."""
    if patience_s is not None:
        return Client(GatewayQueries(way.url, realm.token("submitter"), patience_s=patience_s))
    token = tmp_path / "submitter.token"
    token.touch(mode=0o600)
    token.write_text(realm.token("submitter"))
    return connect(way.url, token_file=token)


@pytest.mark.parametrize("status", [200, 204, 302, 400, 401, 403, 404, 410, 413, 422, 500])
def test_submitter_believes_no_other_answer(
    realm: Realm, way: Way, tmp_path: Path, status: int
) -> None:
    """Neither a refusal nor a success: an error that names what answered."""
    way.judge = lambda *_: Page(status, b"" if status == 204 else b"<p>Hello</p>")
    with pytest.raises(Unavailable, match=rf"{status} from nginx/1\.22\.1, not from a gateway"):
        at(way, realm, tmp_path)


@pytest.mark.thorough
def test_submitter_asks_again_until_the_gateway_answers(
    realm: Realm, way: Way, tmp_path: Path
) -> None:
    """A 403 and a 404 of the way pass as a 502 does; a wrong right of the gateway is final."""
    with at(way, realm, tmp_path) as client:
        campaign = client.campaign(realm.path)
        pages = [Page(403, b"no"), Page(404, b"none"), Page(200, b"<html>"), Page(502)]
        way.judge = lambda *_: pages.pop() if pages else None
        assert campaign.status().total == 0
        assert not pages
        with pytest.raises((Forbidden, NotFound)):
            client.campaign("/elsewhere").status()


@pytest.mark.thorough
def test_upload_and_download_are_repeated_until_the_gateway_answers(
    realm: Realm, way: Way, tmp_path: Path
) -> None:
    """A limit on bodies that somebody raises costs no seed, and a page is no end of a file."""
    content = bytes(range(256)) * 8_192
    file = tmp_path / "input"
    file.write_bytes(content)
    refused: list[str] = []

    def judge(method: str, path: str, _: bytes) -> Page | None:
        if not path.startswith("/v1/blobs/") or refused.count(method) == 2:
            return None
        refused.append(method)
        return NGINX_413

    way.judge = judge
    with at(way, realm, tmp_path) as client:
        stored = client.campaign(realm.path).add_input(file)
        blobs = open_blobs(client.queries)
        assert b"".join(blobs.read(stored.digest)) == content
    assert refused == ["HEAD"] * 2 + ["PUT"] * 2 + ["GET"] * 2


@pytest.mark.thorough
def test_upload_and_look_at_a_blob_believe_no_other_answer(
    realm: Realm, way: Way, tmp_path: Path
) -> None:
    """A portal's 200 to the question whether a blob is there would leave it out."""
    file = tmp_path / "input"
    file.write_bytes(b"x" * 100_000)
    with at(way, realm, tmp_path, patience_s=0) as client:
        campaign = client.campaign(realm.path)
        for status in (200, 204, 404, 413):
            page = Page(status, b"", (("Content-Length", "100000"),) if status == 200 else ())
            way.judge = lambda _method, path, _body, page=page: (
                page if path.startswith("/v1/blobs/") else None
            )
            with pytest.raises(Unavailable, match=f"{status} from"):
                campaign.add_input(file)
        way.judge = lambda *_: None
        campaign.add_input(file)


@pytest.mark.thorough
def test_submitter_with_the_wrong_scheme_fails_at_once(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """HTTP at a TLS gateway and HTTPS at a plain one; a sender of traces too."""
    site = Site(tmp_path)
    plain, encrypted = start_gateway(), start_gateway(*site.certificate)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(Realm(queue, plain).manager)
    for gateway, scheme in ((plain, "http"), (encrypted, "https")):
        right = f"{scheme}://127.0.0.1:{gateway.port}"
        other = "http" if scheme == "https" else "https"
        wrong = f"{other}://127.0.0.1:{gateway.port}"
        with pytest.raises(Unavailable, match=f"is it {re.escape(right)}\\?"):
            connect(wrong, token_file=token, ca=site.ca)
        with pytest.raises(Unavailable, match=f"is it {re.escape(right)}"):
            Receiver(wrong).send([])


def test_every_answer_of_a_gateway_says_that_it_is_one(
    gateway: GatewayProcess, realm: Realm
) -> None:
    """Whatever part of it answers: a claim's path, an endpoint, the parser, a route, a page."""
    agent = realm.agent()
    requests = [
        request_bytes("GET", "/healthz"),
        request_bytes("GET", "/nothing"),
        request_bytes("PATCH", "/healthz"),
        request_bytes("GET", "/taskq-agent.pyz.sha256"),
        request_bytes("GET", "/v1/openapi.json"),
        request_bytes("POST", "/v1/exchange", body=b"{}"),
        request_bytes("POST", "/v1/exchange", token=agent.token, body=b"{}"),
        request_bytes("POST", "/v1/beat", token=agent.token, body=b"{"),
        request_bytes("PUT", f"/v1/blobs/{'0' * 64}", token=agent.token, body=b"x"),
        request_bytes("HEAD", f"/v1/blobs/{'0' * 64}", token=agent.token),
        request_bytes("DELETE", "/v1/session", token=agent.token),
        b"no HTTP at all\r\n\r\n",
        b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n\r\n",
    ]
    for request in requests:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LATER_S) as sock:
            sock.sendall(request)
            head = b""
            while b"\r\n\r\n" not in head and (data := sock.recv(65_536)):
                head += data
        assert f"\r\ntaskq-answer: {PROTOCOL}\r\n".encode() in head.lower(), (request[:60], head)
