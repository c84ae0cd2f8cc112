"""A real `taskq web` on a database of its own, and pages as their parser sees them."""

from __future__ import annotations

import http.client
import select
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlencode

import pytest

from taskq import Client
from tests.fixtures.databases import fresh_database
from tests.fixtures.gateways import opened
from tests.helpers.command_line import PROGRAM, CommandLine

START_S = 100.0
END_S = 100.0
VOID = {"br", "hr", "img", "input", "link", "meta", "path", "rect", "line"}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class Page(HTMLParser):
    """A page, parsed: its elements with their attributes, and its text."""

    source: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self.feed(self.source)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note an empty element."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Check that it closes what was opened last."""
        if tag not in VOID:
            assert self._open, f"</{tag}> closes nothing"
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)

    @property
    def text(self) -> str:
        """All text, with one space between words."""
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


class WebProcess:
    """A process of `taskq web`."""

    def __init__(self, dsn: str, folder: Path, *words: str) -> None:
        self.log = folder / "web.stderr"
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                [str(PROGRAM), "web", "--listen", "127.0.0.1:0", *words],
                env=CommandLine(dsn).environment,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], START_S)
        self.url = self.process.stdout.readline().strip() if ready else ""
        if not self.url:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"it has not started: {self.log.read_text()}")
        address, _, self.secret = self.url.partition("?secret=")
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_S)

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: str | None = None,
        **headers: str,
    ) -> Reply:
        """Return the answer to a request, with the address's secret if there is one.

        headers: with _ for -; a cookie, or `authorization`, takes the secret's place.
        """
        connection = self.connection()
        try:
            names = {name.replace("_", "-"): value for name, value in headers.items()}
            if self.secret and not {"cookie", "authorization"} & names.keys():
                names["authorization"] = f"Bearer {self.secret}"
            connection.request(method, path, body, names)
            got = connection.getresponse()
            text = got.read().decode()
            return Reply(got.status, {k.lower(): v for k, v in got.getheaders()}, text)
        finally:
            connection.close()

    def page(self, address: str, status: int = 200, **query: str) -> Page:
        """Return a page that must have this status."""
        reply = self.ask(address + ("?" + urlencode(query) if query else ""))
        assert reply.status == status, reply.text
        return Page(reply.text)

    def stop(self, expected: str = "") -> None:
        """End it; it must end well, and have logged nothing but lines with some text."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(END_S)
        finally:
            self.process.kill()
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
        lines = self.log.read_text().splitlines()
        assert (code, [line for line in lines if not expected or expected not in line]) == (0, [])


@pytest.fixture(scope="package")
def web_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """Give a database for tests that add campaigns of their own."""
    with fresh_database(server_dsn, template) as dsn:
        yield dsn


@pytest.fixture(scope="package")
def shown(web_dsn: str) -> Iterator[Client]:
    """Give the queue that the pages show."""
    with opened(web_dsn) as queue:
        yield queue


@pytest.fixture(scope="package")
def web(web_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """Give pages for who knows their address."""
    process = WebProcess(web_dsn, tmp_path_factory.mktemp("web"))
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="package")
def guarded(web_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """Give pages that need a token."""
    process = WebProcess(web_dsn, tmp_path_factory.mktemp("guarded"), "--require-token")
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture
def taskq(web_dsn: str) -> CommandLine:
    """Give the command line of the queue that the pages show."""
    return CommandLine(web_dsn)
