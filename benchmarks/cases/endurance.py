"""A queue that runs for long: campaigns come and go, and what is left of them must not grow."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Final

from benchmarks import processes
from benchmarks.findings import Finding, Goal, Ratio
from benchmarks.gateways import running_agent, running_gateways, running_keeper
from benchmarks.lives import Lives
from benchmarks.load import sessions
from benchmarks.load.agent_load import AgentLoad
from benchmarks.load.work import LoadWork
from benchmarks.measurement import US
from benchmarks.own_server import own_server
from benchmarks.report import number
from benchmarks.small_disk import SmallDisk, small_disk
from benchmarks.stage import Bench
from taskq.db import migrations
from taskq.db.audit import audit
from taskq.db.connections import Database

PARTS: Final = 10
#: Parts in which tables get the size that they keep, and caches fill.
WARM: Final = 2
#: Parts that the others are compared with.
EARLY: Final = 4
AGENTS: Final = LoadWork(16, want=100, wait_s=1.0, remembered=False)
CLEAN_AGE_S: Final = 10.0
MOST_SESSIONS: Final = 1_000_000
MB: Final = 1_000_000
#: Their peaks count: autovacuum gives the end of a table back when it comes by, and a disk must
#: hold the most that there was.
ON_DISK: Final[Mapping[str, str]] = {
    "disk": "bytes on the disk but for the log",
    "table": "bytes of tables",
    "index": "bytes of indexes",
    "catalog": "bytes of catalogs",
}
IN_MEMORY: Final[Mapping[str, str]] = {
    "gateway": "memory of the gateway",
    "keeper": "memory of the keeper",
    "agent": "memory of an agent",
}
#: Kinds of what may grow, each table and index by itself.
OF_ONE: Final = frozenset({"table", "index", "catalog"})
LEVEL: Final = Goal(1.1, "most")
#: A table or index has grown if it has so many times as many bytes, and so many more.
GROWN_TIMES: Final = 1.5
GROWN_BYTES: Final = 500_000


@dataclass(slots=True)
class _Part:
    """A tenth of the campaigns. seconds: from the end of the one before.

    cpu_s: of PostgreSQL. seen: the bytes of what was measured, after each campaign.
    """

    tasks: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    seen: list[Counter[str]] = field(default_factory=list)

    def bytes_of(self, what: str) -> float:
        """Return the median of what was measured."""
        return statistics.median(seen[what] for seen in self.seen)

    def peak_of(self, what: str) -> float:
        """Return the most that was measured."""
        return max(seen[what] for seen in self.seen)


@dataclass(slots=True)
class _Lived:
    """What became of all campaigns. left: rows of them that are still there, by table."""

    parts: list[_Part]
    left: Mapping[str, int]
    violations: int


def turned_over(bench: Bench) -> Iterator[Finding]:
    """Seed, run, archive and remove 1,000 campaigns of 100,000 tasks in turn on a disk of 10 GB.

    Two of them are seeded and run while two others are archived and removed. The later tenths are
    compared with the third to the sixth.
    """
    scale = bench.scale
    with (
        small_disk(scale.disk_bytes) as disk,
        own_server(disk.folder) as server,
        closing(Database(server.up().dsn).open()) as database,
    ):
        migrations.migrate(database)
        lived = _lived(bench, database, disk)
    what = f"{scale.endured:,} campaigns of {scale.endured_tasks:,} tasks"
    rates = [part.tasks / part.seconds for part in lived.parts]
    yield _compared(f"tasks archived and removed a second, {what}", "", rates, Goal(0.9))
    cpu_us = [US * part.cpu_s / part.tasks for part in lived.parts]
    yield _compared(f"processor time of PostgreSQL for a task, {what}", "µs", cpu_us, LEVEL)
    for name, words in ON_DISK.items():
        peaks = [part.peak_of(name) / MB for part in lived.parts]
        yield _compared(f"{words}, {what}", "MB", peaks, LEVEL, of=max)
    for name, words in IN_MEMORY.items():
        sizes = [part.bytes_of(name) / MB for part in lived.parts]
        yield _compared(f"{words}, {what}", "MB", sizes, LEVEL)
    log, limit = (lived.parts[-1].bytes_of(name) / MB for name in ("log", "limit"))
    log_ratio = Ratio(*[log / limit] * 3)
    yield Finding(
        f"bytes of the log's files, {what}", log, "MB", "max_wal_size", limit, log_ratio, LEVEL
    )
    grown = list(_grown(lived.parts))
    yield _none(f"tables and indexes that have grown, {what}", len(grown), grown, timed=True)
    missing = scale.endured * scale.endured_tasks - sum(part.tasks for part in lived.parts)
    yield _none(f"tasks that are in no archive, {what}", missing)
    left = [f"{rows:,} in {table}" for table, rows in lived.left.items()]
    yield _none(f"rows of campaigns that are gone, {what}", sum(lived.left.values()), left)
    yield _none(f"violations in the audit, {what}", lived.violations)


def _lived(bench: Bench, database: Database, disk: SmallDisk) -> _Lived:
    scale, dsn = bench.scale, database.dsn
    token_file = bench.folder / "token"
    token_file.touch(0o600)
    token_file.write_text(sessions.enrolment_token(database, "/"), encoding="ascii")
    parts = [_Part() for _ in range(PARTS)]
    with ExitStack() as entered:
        keeper = entered.enter_context(running_keeper(dsn, bench.folder))
        alone = ("--no-keeper",)
        gateways = entered.enter_context(running_gateways(dsn, 1, bench.folder, options=alone))
        (gateway,) = gateways.addresses
        agent = entered.enter_context(running_agent(gateway, token_file, bench.folder))
        credentials = sessions.opened(database, "/", AGENTS.agents)
        load = entered.enter_context(AgentLoad(AGENTS, gateways.addresses, credentials))
        pids = {"gateway": gateways.pids[0], "keeper": keeper.pid, "agent": agent.pid}
        lives = Lives(database, bench.folder, scale.endured, scale.endured_tasks)
        root = processes.server_process(database)
        began, spent = time.perf_counter(), _cpu_s(root)
        for place, removed in enumerate(lives.live(load.check)):
            disk.check()
            part = parts[place * PARTS // scale.endured]
            part.tasks += removed.tasks
            part.seconds += removed.at - began
            part.cpu_s += _cpu_s(root) - spent
            began, spent = removed.at, _cpu_s(root)
            part.seen.append(_measured(database, disk, pids))
            if (place + 1) * PARTS // scale.endured > place * PARTS // scale.endured:
                # As `taskq db clean` does every day.
                database.rows(
                    "remove_unused_sessions", limit=MOST_SESSIONS, age_s=CLEAN_AGE_S, dry_run=False
                )
                rate = number(part.tasks / part.seconds)
                bench.tell(f"{place + 1:,} of {scale.endured:,} campaigns, {rate} tasks a second")
        load.deliver()
    with database.transaction() as statements:
        statements.execute("benchmarks.sql/count_left_over")
        left = {row["name"]: row["rows"] for row in statements.rows("benchmarks.sql/left_over")}
    return _Lived(parts, left, sum(1 for _ in audit(database, "/")))


def _cpu_s(root: int | None) -> float:
    """Return the processor time of PostgreSQL so far; 0 if its first process is not known."""
    return processes.cpu_s(root) if root else 0.0


def _measured(database: Database, disk: SmallDisk, pids: Mapping[str, int]) -> Counter[str]:
    """Return the bytes of all that must not grow: by kind, and each table and index by its name."""
    seen = Counter({"disk": disk.used()})
    for row in database.rows("benchmarks.sql/relations"):
        seen[row["kind"]] += row["bytes"]
        if row["kind"] in OF_ONE:
            seen[f"{row['kind']} {row['name']}"] += row["bytes"]
    seen["disk"] -= seen["log"]
    for name, pid in pids.items():
        seen[name] = processes.memory(pid)
    return seen


def _grown(parts: Sequence[_Part]) -> Iterator[str]:
    """Yield the tables and indexes that take much more in the last part than after the warm-up."""
    first, last = parts[WARM], parts[-1]
    for name in sorted({name for seen in last.seen for name in seen if " " in name}):
        before, after = first.bytes_of(name), last.bytes_of(name)
        if after > max(GROWN_TIMES * before, before + GROWN_BYTES):
            yield f"{name} {number(before / MB)} to {number(after / MB)} MB"


def _compared(
    what: str,
    unit: str,
    figures: Sequence[float],
    goal: Goal,
    *,
    of: Callable[[Sequence[float]], float] = statistics.median,
) -> Finding:
    """Return the finding that compares the later parts with the earlier ones after the warm-up.

    of: which figure stands for several parts.
    """
    early = of(figures[WARM : WARM + EARLY])
    late = figures[WARM + EARLY :]
    ratio = Ratio(of(late) / early, min(late) / early, max(late) / early)
    return Finding(what, of(late), unit, "earlier", early, ratio, goal, curve=tuple(figures))


def _none(what: str, count: int, names: Sequence[str] = (), *, timed: bool = False) -> Finding:
    goal = Goal(0, "most", timed=timed)
    return Finding(what, count, "", goal=goal, note=", ".join(names))
