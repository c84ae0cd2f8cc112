"""Pages served by a gateway: who sees them, what they cost others, how they end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from taskq.gateway.pages_process import MOST, MOST_OF_TOKEN
from tests.fixtures.gateways import END_S, GatewayProcess, opened
from tests.helpers.waiting import wait_until

START_S = 100.0
#: MB by which viewers that read nothing may let a gateway grow.
ROOM_MB = 64


@pytest.fixture
def shown(dsn: str, tmp_path: Path) -> Iterator[GatewayProcess]:
    """Give a gateway with pages."""
    process = GatewayProcess(
        dsn, tmp_path, "--pages", expected=["the pages have ended", "at the pages"]
    )
    try:
        yield process
        process.stop()
    finally:
        process.kill()


@pytest.fixture
def token(dsn: str) -> Iterator[str]:
    """Give a manager's token for /a, in a queue with /a and /b."""
    with opened(dsn) as queue:
        for path in ("/a", "/b"):
            queue.create_campaign(path).seed({"n": n} for n in range(5))
        yield queue.tokens.create("manager", "ann", ["/a"])[0]


def ask(
    gateway: GatewayProcess, path: str, token: str = "", body: str = "", **further: str
) -> tuple[int, str]:
    """Return status and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=START_S)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= {name.replace("_", "-"): value for name, value in further.items()}
        connection.request("POST" if body else "GET", path, body or None, headers)
        got = connection.getresponse()
        return got.status, got.read().decode() + str(got.getheader("set-cookie"))
    finally:
        connection.close()


@contextmanager
def live(gateway: GatewayProcess, token: str) -> Iterator[http.client.HTTPResponse]:
    """Give what is live of /a, as it comes."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=START_S)
    with closing(connection):
        headers = {"Authorization": f"Bearer {token}"}
        connection.request("GET", "/live?path=/a&levels=1", headers=headers)
        with connection.getresponse() as got:
            yield got


def pages_process(gateway: GatewayProcess) -> int:
    """Return the process that serves its pages."""
    number = gateway.process.pid
    (child,) = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    return int(child)


def test_pages_are_for_managers_and_their_campaigns(shown: GatewayProcess, token: str) -> None:
    """As those of `taskq web --require-token`; what else there is at a gateway stays."""
    assert ask(shown, "/")[0] == ask(shown, "/live?path=/a")[0] == 401
    assert ask(shown, "/", "wrong")[0] == 401
    status, text = ask(shown, "/campaign?path=/a", token)
    assert (status, "5 tasks wait" in text) == (200, True)
    assert ask(shown, "/campaign?path=/b", token)[0] == 403
    status, text = ask(shown, "/sign-in", body=urlencode({"token": token}))
    assert (status, "HttpOnly" in text) == (303, True)
    assert ask(shown, "/sign-in", body="x" * 5_000)[0] == 413
    assert ask(shown, "/static/style.css")[0] == 200
    status, text = ask(shown, "/nope")
    assert (status, json.loads(text.removesuffix("None"))["error"]["code"]) == (404, "not_found")
    assert json.loads(ask(shown, "/healthz")[1].removesuffix("None"))["status"] == "ok"


@pytest.mark.thorough
def test_viewers_act_at_a_gateway(dsn: str, shown: GatewayProcess, token: str) -> None:
    """By forms of its pages, under their tokens; forms of others' pages are refused."""
    text = ask(shown, "/act?do=pause&path=/a", token)[1]
    assert "taskq campaign pause /a" in text
    assert ask(shown, "/act?do=pause&path=/b", token)[0] == 403
    form = urlencode(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text))
    foreign = {"Origin": "https://evil.example", "Sec_Fetch_Site": "cross-site"}
    with opened(dsn) as queue:
        assert ask(shown, "/do", token, form, **foreign)[0] == 403
        assert ask(shown, "/do", "", form)[0] == 401
        assert queue.campaign("/a").status().state == "open"
        assert ask(shown, "/do", token, form)[0] == 200
        assert queue.campaign("/a").status().state == "paused"


@pytest.mark.thorough
def test_no_link_of_a_page_leads_nowhere(dsn: str, shown: GatewayProcess) -> None:
    """To each page that `taskq web` has; a gateway passes all of them on."""
    with opened(dsn) as queue:
        queue.create_campaign("/a").submit({"n": 1}, "k")
        token = queue.tokens.create("manager", "eve", ["/"])[0]
    links = {"/", "/campaign?path=/a", "/task?path=/a&key=k"}
    for page in sorted(links):
        found = re.findall(r'(?:href|src)="(/[^"#]*)', ask(shown, page, token)[1])
        links |= {unescape(value) for value in found}
    assert {link.partition("?")[0] for link in links} >= {"/owners", "/hosts", "/sites", "/agents"}
    lost = {link for link in links if ask(shown, link, token)[0] == 404}
    assert lost == set()


@pytest.mark.thorough
def test_live_page_ends_with_its_gateway(dsn: str, tmp_path: Path, token: str) -> None:
    """A viewer does not hold up a drain: it ends long before agents must have gone."""
    gateway = GatewayProcess(dsn, tmp_path, "--pages", "--drain", "600")
    with ExitStack() as stack:
        failed = stack.enter_context(ExitStack())
        failed.callback(gateway.kill)
        reader = stack.enter_context(live(gateway, token))
        queue = stack.enter_context(opened(dsn))
        while b'.waiting": "5"' not in (line := reader.readline()):
            assert line
        queue.campaign("/a").submit({"n": 99})
        while b'.waiting": "6"' not in (line := reader.readline()):
            assert line
        gateway.process.send_signal(signal.SIGTERM)
        ends_at = time.monotonic() + END_S
        while reader.readline():
            assert time.monotonic() < ends_at
        failed.pop_all()
    gateway.ended()


@pytest.mark.thorough
def test_viewers_are_bounded_and_agents_are_served(
    shown: GatewayProcess, token: str, dsn: str
) -> None:
    """Those beyond have to come again; those of one token keep no others out."""
    with opened(dsn) as queue:
        other = queue.tokens.create("manager", "bob", ["/a"])[0]
    with ExitStack() as following:
        for _ in range(MOST_OF_TOKEN):
            assert following.enter_context(live(shown, token)).status == 200
        assert ask(shown, "/", token)[0] == 503
        assert ask(shown, "/", other)[0] == 200
        for _ in range(MOST - MOST_OF_TOKEN):
            reader = following.enter_context(live(shown, other))
            assert (reader.status, reader.getheader("taskq-viewer")) == (200, None)
        assert ask(shown, "/", other)[0] == 503
        assert ask(shown, "/healthz")[0] == 200
    wait_until(lambda: ask(shown, "/", token)[0] == 200, timeout_s=START_S)


@pytest.mark.thorough
def test_viewers_that_read_nothing_keep_no_others_out(shown: GatewayProcess, dsn: str) -> None:
    """Pages of hundreds of campaigns, live and not, at sockets with little room."""
    with opened(dsn) as queue:
        for number in range(400):
            queue.create_campaign(f"/{'many' * 20}{number}")
        slow, other = (queue.tokens.create("manager", name, ["/"])[0] for name in ("ann", "bob"))
    whole = len(ask(shown, "/?levels=1", other)[1])
    assert whole > 200_000
    before = shown.memory_mb()
    with ExitStack() as stack:
        for number in range(2 * MOST):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            sock.connect(("127.0.0.1", shown.port))
            path = "/?levels=1" if number % 2 else "/live?path=/&levels=1"
            lines = [f"GET {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {slow}", "", ""]
            sock.sendall("\r\n".join(lines).encode())
        for _ in range(5):
            wait_until(lambda: ask(shown, "/?levels=1", other)[0] == 200, timeout_s=START_S)
        assert shown.memory_mb() < before + ROOM_MB
    wait_until(lambda: ask(shown, "/", slow)[0] == 200, timeout_s=START_S)


@pytest.mark.thorough
def test_gateway_without_pages_has_none(dsn: str, tmp_path: Path, token: str) -> None:
    """They must be asked for."""
    process = GatewayProcess(dsn, tmp_path)
    try:
        assert ask(process, "/", token)[0] == ask(process, "/campaign?path=/a", token)[0] == 404
        process.stop()
    finally:
        process.kill()


@pytest.mark.thorough  # it waits for ten seconds
def test_pages_that_have_ended_are_started_again(shown: GatewayProcess, token: str) -> None:
    """When somebody asks for one; the gateway serves all else meanwhile."""
    assert ask(shown, "/", token)[0] == 200
    first = pages_process(shown)
    os.kill(first, signal.SIGKILL)
    assert ask(shown, "/healthz")[0] == 200
    wait_until(lambda: ask(shown, "/", token)[0] == 200, timeout_s=START_S, on_timeout=shown.errors)
    assert pages_process(shown) != first
    assert "the pages have ended" in shown.errors()


@pytest.mark.thorough
def test_pages_end_with_a_gateway_that_is_killed(shown: GatewayProcess, token: str) -> None:
    """They see it by their standard input."""
    assert ask(shown, "/", token)[0] == 200
    child = Path(f"/proc/{pages_process(shown)}")
    shown.kill()
    wait_until(lambda: not child.exists() or ") Z " in (child / "stat").read_text())
