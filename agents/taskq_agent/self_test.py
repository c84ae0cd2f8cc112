"""Self-test of a node before its agent claims anything.

A node where every task would fail can fail a whole campaign in minutes. An unfit node therefore
claims nothing.
"""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from pathlib import Path
from typing import Callable, List, Optional, Sequence, Tuple

from taskq_agent import exit_codes
from taskq_agent.errors import LostOnTheWay
from taskq_agent.folders import SlotFolders
from taskq_agent.handlers import environment
from taskq_agent.handlers.executables import why_not_executable
from taskq_agent.handlers.live import Tail
from taskq_agent.http.answers import check_origin, wrong_scheme
from taskq_agent.http.connections import Connections, Dialer, HttpRequest, read_all, why_not_trusted
from taskq_agent.http.gateways import GatewayList
from taskq_agent.loop import AgentSummary
from taskq_agent.protocol import MAX_TAIL_BYTES

TOKEN_VARIABLE = "TASKQ_TOKEN"  # noqa: S105 - the name of one

log = logging.getLogger(__name__)

_START_S = 60.0
_COMMAND_S = 300.0
_ANSWER_S = 10.0
_MAX_ANSWER_BYTES = 1 << 20
_CLOCK_OFF_S = 300.0


class Unfit(Exception):
    """This node cannot run any tasks; the text says why."""


@dataclass(frozen=True)
class Node:
    """The node to test. command: a program of the site, which must exit with 0.

    gateways, dialer: None if the agent has a direct connection to the database.
    """

    scratch_root: Optional[Path]
    gateways: Optional[GatewayList]
    dialer: Optional[Dialer]
    command: Sequence[str] = ()


def unfit(reason: str) -> AgentSummary:
    """Log that nothing was claimed, and why; return such an agent's summary."""
    log.error("this node is unfit, and has claimed nothing: %s", reason)
    return AgentSummary(0, 0, 0, 0, 0, f"this node is unfit: {reason}", exit_codes.NODE_BROKEN)


def check_node(node: Node) -> None:
    """Run all checks, the quickest first; raise Unfit at the first failure."""
    for name, check in CHECKS:
        begun = time.monotonic()
        check(node)
        log.debug("self-test: %s is fine (%.2f s)", name, time.monotonic() - begun)


def _scratch(node: Node) -> None:
    try:
        folder = SlotFolders(node.scratch_root, 0, keep=False, elsewhere=False)
        try:
            Path(folder.take("self-test"), "file").write_bytes(b"written")
        finally:
            folder.close()
    except OSError as error:
        raise Unfit(f"no scratch folder can be used: {error}") from error


def _children(_: Node) -> None:
    # -S: the test is whether processes start, not whether site-packages works
    _run([sys.executable, "-I", "-S", "-c", ""], _START_S)


def _gateways(node: Node) -> None:
    """Call the gateways until one answers; Unfit if all of them fail by a fault of this node."""
    if node.gateways is None or node.dialer is None:
        return
    connections = Connections(node.dialer)
    unusable: List[str] = []
    addresses = node.gateways.all()
    try:
        for address in addresses:
            http_request = HttpRequest("GET", "/healthz")
            try:
                with connections.answered(address, http_request, timeout_s=_ANSWER_S) as response:
                    check_origin(response)
                    date = response.getheader("Date")
                    read_all(response, most_bytes=_MAX_ANSWER_BYTES, within_s=_ANSWER_S)
            except ssl.SSLCertVerificationError as error:
                why = why_not_trusted(error, "--ca")
                unusable.append(f"no certificate can be verified: {address}: {why}")
            except (OSError, HTTPException, ValueError, LostOnTheWay) as error:
                level = logging.WARNING if isinstance(error, LostOnTheWay) else logging.DEBUG
                log.log(level, "self-test: %s: %s", address, error)
                wrong = wrong_scheme(address, error)
                unusable += [] if wrong is None else [wrong]
            else:
                _compare_clocks(date)
                return
    finally:
        connections.close()
    if len(unusable) == len(addresses):
        raise Unfit(f"no gateway can be used: {unusable[0]}")


def _compare_clocks(date: Optional[str]) -> None:
    try:
        off_s = time.time() - parsedate_to_datetime(date or "").timestamp()
    except (TypeError, ValueError):  # TypeError before Python 3.10
        return
    if abs(off_s) > _CLOCK_OFF_S:
        # only logs and certificates depend on it: the database times the leases
        log.warning("the clock of this node is off by %.0f s, says the gateway", off_s)


def _site_command(node: Node) -> None:
    if node.command:
        _run(node.command, _COMMAND_S)


def _run(argv: Sequence[str], within_s: float) -> None:
    try:
        ended = subprocess.run(
            argv,
            env=environment.own(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=within_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unfit(f"{argv[0]} has not ended after {within_s:.0f} s") from None
    except OSError as error:
        why = why_not_executable(shutil.which(argv[0]), error)
        text = f"cannot be started: {error}" if why is None else f"is there, but {why}"
        raise Unfit(f"{argv[0]} {text}") from error
    if ended.returncode != 0:
        tail = Tail(MAX_TAIL_BYTES)
        tail.add(ended.stdout)
        output = " ".join((tail.text() or "").split())
        raise Unfit(f"{argv[0]} exited with {ended.returncode}: {output}".rstrip(": "))


CHECKS: Tuple[Tuple[str, Callable[[Node], None]], ...] = (
    ("scratch folder", _scratch),
    ("starting processes", _children),
    ("gateways and clock", _gateways),
    ("the site's own test", _site_command),
)
