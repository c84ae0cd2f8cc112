"""Agents of a gateway next to hostile clients without a token."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from benchmarks.cases.crowds import Crowd
from benchmarks.findings import Finding, Goal
from benchmarks.gateways import running_gateways
from benchmarks.load.agent_load import Seen
from benchmarks.load.work import LoadTarget, LoadWork
from benchmarks.stage import Bench
from benchmarks.turns import compare

POURING: Final = 8
BODY_BYTES: Final = 100_000_000
PAUSE_S: Final = 0.05
"""Between two connections of a stranger: what they cost while they last is to be measured."""
RATE: Final = 12.0
"""Exchanges of an agent a second: 256 agents do some 3,000."""

_CHUNK: Final = bytes(65_536)


def poured(bench: Bench) -> Iterator[Finding]:
    """Serve 256 agents next to 8 strangers who send bodies of 100 MB without a token."""
    agents = max(1, bench.scale.agents // 2)
    work = LoadWork(agents, rate=agents * RATE, random=True)
    seen: dict[bool, list[Seen]] = {True: [], False: []}
    with bench.stage() as stage, running_gateways(stage.database.dsn, 1, bench.folder) as gateways:
        crowd = Crowd(stage, agents, bench.scale.seconds)

        def together() -> float:
            with _strangers(gateways.addresses[0]):
                seen[True].append(crowd.run(gateways, work).seen)
            return seen[True][-1].rate

        def alone() -> float:
            seen[False].append(crowd.run(gateways, work).seen)
            return seen[False][-1].rate

        rates = compare(together, alone, bench.scale.rounds)
    what = (
        f"{agents} agents next to {POURING} strangers that send {BODY_BYTES // 1_000_000} MB each"
    )
    yield rates.finding(f"exchanges of {what}", "a second", "without them", Goal(0.9))
    late = [iter([latency.p99_s * 1_000 for latency in seen[hostile]]) for hostile in (True, False)]
    slow = compare(late[0].__next__, late[1].__next__, bench.scale.rounds)
    yield slow.finding(f"99 of 100 answers within, {what}", "ms", "without them", Goal(2.0, "most"))


@contextmanager
def _strangers(gateway: LoadTarget) -> Iterator[None]:
    """Let strangers send bodies during the block, on ever new connections."""
    over = threading.Event()

    def run(pour: Callable[[LoadTarget], None]) -> None:
        while not over.wait(PAUSE_S):
            with suppress(OSError):
                pour(gateway)

    threads = [threading.Thread(target=run, args=(_pour,), daemon=True) for _ in range(POURING)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _pour(gateway: LoadTarget) -> None:
    """Send a body for as long as it is taken."""
    head = f"POST /v1/beat HTTP/1.1\r\nhost: {gateway.host}\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    with socket.create_connection(gateway, 30) as line:
        line.sendall(head.encode())
        for _ in range(BODY_BYTES // len(_CHUNK)):
            line.sendall(_CHUNK)
