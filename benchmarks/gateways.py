"""Gateways and keepers as child processes, for the duration of a block."""

from __future__ import annotations

import http.client
import os
import select
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.load.work import LoadTarget
from taskq.model.errors import Unavailable

HOST: Final = "127.0.0.1"
READY_S: Final = 30.0
DRAINED_S: Final = 60.0
LAST_CHARS: Final = 400

# The command line is the layer above this one, so it is run and not imported.
_PROGRAM: Final = "from taskq_cli.main import main; main()"


@dataclass(frozen=True, slots=True)
class BenchCertificate:
    """A certificate for the name and address of this machine, its own authority; and its key."""

    file: Path
    key: Path


@dataclass(frozen=True, slots=True)
class RunningGateways:
    """Gateways that serve. pids: of their processes; each may have more below it."""

    addresses: tuple[LoadTarget, ...]
    pids: tuple[int, ...]

    def first(self, count: int) -> RunningGateways:
        """Return so many of them."""
        return RunningGateways(self.addresses[:count], self.pids[:count])


@contextmanager
def running_gateways(
    dsn: str,
    count: int,
    folder: Path,
    certificate: BenchCertificate | None = None,
    options: Sequence[str] = (),
) -> Iterator[RunningGateways]:
    """Start gateways and wait until they are ready; end them afterwards, as an operator does.

    folder: for their log. certificate: for TLS. options: further ones of `taskq gateway`. Raise
    `Unavailable` if one does not serve.
    """
    with ExitStack() as started:
        gateways = [
            started.enter_context(_gateway(dsn, folder / "gateway.log", certificate, options))
            for _ in range(count)
        ]
        yield RunningGateways(
            tuple(gateway for gateway, _ in gateways), tuple(pid for _, pid in gateways)
        )


@contextmanager
def running_keeper(
    dsn: str, folder: Path, options: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a keeper during the block; raise `Unavailable` if it ends before. folder: for its log."""
    process = _started(dsn, folder / "keeper.log", ["keeper", *options])
    try:
        yield process
        if process.poll() is not None:
            raise Unavailable(f"the keeper has ended: {_last_words(folder / 'keeper.log')}")
    finally:
        _end(process)


@contextmanager
def running_agent(
    gateway: LoadTarget, token_file: Path, folder: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """Run an agent that finds this folder's modules; raise `Unavailable` if it ends before.

    folder: for its log.
    """
    words = ["run", "--gateway", f"http://{gateway.host}:{gateway.port}"]
    words += ["--token-file", str(token_file), "--path", str(Path.cwd())]
    with (folder / "agent.log").open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "taskq_agent", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process
        if process.poll() is not None:
            raise Unavailable(f"the agent has ended: {_last_words(folder / 'agent.log')}")
    finally:
        _end(process)


def make_certificate(folder: Path) -> BenchCertificate:
    """Make a certificate with the program openssl; raise `Unavailable` if that fails."""
    made = BenchCertificate(folder / "gateway.crt", folder / "gateway.key")
    argv = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    argv += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-addext", f"subjectAltName=DNS:localhost,IP:{HOST}"]
    argv += ["-keyout", str(made.key), "-out", str(made.file)]
    try:
        subprocess.run(argv, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unavailable(f"openssl makes no certificate: {error}") from None
    return made


@contextmanager
def _gateway(
    dsn: str, log: Path, certificate: BenchCertificate | None, options: Sequence[str]
) -> Iterator[tuple[LoadTarget, int]]:
    words = ["gateway", "--listen", f"{HOST}:0", "--drain", "0", *options]
    if certificate is not None:
        words += ["--tls-cert", str(certificate.file), "--tls-key", str(certificate.key)]
    process = _started(dsn, log, words)
    try:
        address = _address(process)
        if address is None or not _ready(address, certificate):
            raise Unavailable(f"the gateway does not serve: {_last_words(log)}")
        yield address, process.pid
    finally:
        _end(process)


def _started(dsn: str, log: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            env=_environment() | {"TASKQ_DSN": dsn},  # may hold a password
            start_new_session=True,  # Ctrl-C is for us; we end it
        )


def _environment() -> dict[str, str]:
    """Return the environment without the front that others use."""
    return {name: value for name, value in os.environ.items() if name != "TASKQ_REDIS"}


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-LAST_CHARS:]


def _address(process: subprocess.Popen[bytes]) -> LoadTarget | None:
    """Return the address that a gateway prints; None if it has ended or prints nothing."""
    assert process.stdout is not None  # noqa: S101  # a pipe, as asked for
    if not select.select([process.stdout], [], [], READY_S)[0]:
        return None
    url = urlsplit(process.stdout.readline().decode().strip())
    return LoadTarget(url.hostname, url.port) if url.hostname and url.port else None


def _ready(address: LoadTarget, certificate: BenchCertificate | None) -> bool:
    connection = http.client.HTTPConnection(*address, timeout=READY_S)
    if certificate is not None:
        context = ssl.create_default_context(cafile=str(certificate.file))
        connection = http.client.HTTPSConnection(*address, timeout=READY_S, context=context)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdout is not None:
        process.stdout.close()
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(DRAINED_S)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
