"""How the server runs: its settings, memory, snapshots, log and clock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Final

from taskq.db.access import Queries
from taskq.db.checks.findings import ADVICE, FAULT, FINE, UNSEEN, ServerFinding
from taskq.db.left_settings import LEFT
from taskq.db.rows import Row
from taskq.model.words import HOUR_S, counted, duration, instant, percent
from taskq_agent.units import in_bytes

_SNAPSHOT_S: Final = (HOUR_S, 24 * HOUR_S)
_PREPARED_S: Final = float(HOUR_S)
#: Share of connections in use from which new ones may be refused soon.
_CONNECTIONS: Final = 0.85
#: Transactions that can be counted, of which PostgreSQL stops 3 million before the end.
_WRAPAROUND: Final = 2**31
#: Shares of these, and of autovacuum_freeze_max_age.
_FREEZE: Final = (0.6, 2.0)
_READ_PAGES: Final = 1_000_000
_HITS: Final = 0.95
_CLOCK_S: Final = 5.0
#: Of the parameters of a statement in the server's log.
_LOGGED_BYTES: Final = 1_000
#: Connections that gateways, keepers and people need at least.
_NEEDED: Final = 20
#: Transactions for which a standby may hold back VACUUM: hours, and days.
_BEHIND: Final = (10_000_000, 200_000_000)
_ALL_STATS: Final = "`grant pg_read_all_stats to` this login lets it see them"


def read_settings(queries: Queries) -> list[Row]:
    """Return the settings that are left to the server."""
    return queries.rows("check_settings", names=list(LEFT))


def settings(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the settings that are left to the server."""
    wrong = [row for row in rows if not LEFT[row["name"]].is_good(row["value"])]
    placed = {(row["name"], row["value"]) for row in wrong if row["place"]}
    for row in wrong:
        name, value, place = row["name"], row["value"], row["place"]
        if not place and (name, value) in placed:
            continue
        rule = LEFT[name]
        remedy = (
            f"`alter {place} reset {name}`"
            if place
            else f"`alter system set {name} = '{rule.good[0]}'`, then `select pg_reload_conf()`"
        )
        yield ServerFinding(
            FAULT if rule.loses else ADVICE,
            f"{name} is {value}{f' for the {place}' if place else ''}: {rule.harm}.",
            remedy,
            {"setting": name, "value": value},
        )
    if not wrong:
        yield ServerFinding(
            FINE, "fsync, full_page_writes, synchronous_commit and the like are right."
        )


def memory(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the memory that the settings allow against that of this machine."""
    (row,) = rows
    most = row["buffers"] + row["vacuum"] * row["vacuums"] + row["sort"] * row["connections"]
    text = f"The settings let the server use {in_bytes(most)}"
    figures = {"most": most, "shared_buffers": row["buffers"]}
    if not row["is_local"]:
        yield ServerFinding(
            UNSEEN,
            f"{text}; how much memory its machine has cannot be seen from here.",
            "run `taskq db check` there, by its socket",
            figures,
        )
        return
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    text += f" of {in_bytes(there)}"
    if most > there or row["buffers"] > there // 2:
        yield ServerFinding(
            ADVICE,
            f"{text}: under load the system may kill it.",
            "lower work_mem, max_connections or shared_buffers (usually a quarter of the memory)",
            figures | {"memory": there},
        )
    else:
        yield ServerFinding(FINE, f"{text}.", figures=figures | {"memory": there})


def connections(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge how many connections are left."""
    (row,) = rows
    used, most = row["connections"], row["most"]
    text = f"{used:,} of {most:,} connections are in use."
    figures = {"connections": used, "most": most}
    if most < _NEEDED:
        yield ServerFinding(
            ADVICE,
            f"The server allows {most:,} connections here: gateways, keepers and people need "
            f"{_NEEDED}.",
            row["remedy"],
            figures,
        )
    elif used > _CONNECTIONS * most:
        yield ServerFinding(
            ADVICE,
            text,
            "serve agents by gateways, which need a few connections for thousands of agents, or "
            "raise max_connections",
            figures,
        )
    else:
        yield ServerFinding(FINE, text, figures=figures)


def standbys(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge whether commits wait for a standby that is not there."""
    (row,) = rows
    if row["names"] and not row["standbys"] and not row["is_left"]:
        yield ServerFinding(
            FAULT,
            "No standby is connected, and commits wait for one (synchronous_standby_names = "
            f"'{row['names']}'): each seed, claim and report waits for ever.",
            "start a standby; or `alter system set synchronous_standby_names = ''`, then `select "
            "pg_reload_conf()`: what is acknowledged is then on one server",
            {"names": row["names"]},
        )
    else:
        yield ServerFinding(FINE, "Commits wait for no standby that is not there.")


def texts_in_log(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge whether the server logs payloads and results."""
    (row,) = rows
    logs = row["statements"] in {"mod", "all"} or row["all_slow"]
    if logs and not 0 <= row["bytes"] <= _LOGGED_BYTES:
        yield ServerFinding(
            ADVICE,
            "The server logs statements with their parameters: payloads and results are in its "
            "log, and fill the disk.",
            "`alter system set log_parameter_max_length = 100`, then `select pg_reload_conf()`",
            {"log_statement": row["statements"]},
        )
    else:
        yield ServerFinding(FINE, "The server logs no payloads or results.")


def collation(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge whether indexes of texts were made by another version of their order."""
    (row,) = rows
    made_by, there = row["made_by"], row["there"]
    if made_by is None or there is None or made_by == there:
        yield ServerFinding(FINE, "Indexes of texts have the order that the server has.")
        return
    yield ServerFinding(
        FAULT,
        f"Indexes of texts were made by version {made_by} of the collation, and the system has "
        f"{there} now: rows are not found, or are there twice.",
        f"`reindex (concurrently) schema taskq`, and only then `alter database {row['database']} "
        "refresh collation version`",
        {"made_by": made_by, "there": there},
    )


def snapshot(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the oldest snapshot."""
    (row,) = rows
    held_s = row["held_s"]
    figures = {"held_s": held_s, "pid": row["pid"], "hidden": row["hidden"]}
    late, very_late = _SNAPSHOT_S
    if held_s is not None and held_s > late:
        yield ServerFinding(
            FAULT if held_s > very_late else ADVICE,
            f"The session {row['pid']} of {row['login']} has held a snapshot for "
            f"{duration(held_s)}: nothing that ended since can be cleaned up, and claims get "
            "slower.",
            f"let its owner end it, or `select pg_terminate_backend({row['pid']})`",
            figures,
        )
    elif row["hidden"]:
        yield ServerFinding(
            UNSEEN,
            f"{counted(row['hidden'], 'session')} of other logins cannot be looked at, so the "
            "oldest snapshot is not known.",
            _ALL_STATS,
            figures,
        )
    else:
        age = "" if held_s is None else f", {duration(held_s)} old"
        yield ServerFinding(FINE, f"No old snapshot is held{age}.", figures=figures)


def held(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge prepared transactions and replication slots."""
    found = False
    for row in rows:
        name = row["name"]
        if row["kind"] == "prepared transaction" and row["held_s"] > _PREPARED_S:
            found = True
            yield ServerFinding(
                FAULT,
                f"The transaction {name} has been prepared for {duration(row['held_s'])}: it keeps "
                "its locks, and nothing that ended since can be cleaned up.",
                f"`commit prepared '{name}'` or `rollback prepared '{name}'`",
                {"transaction": name, "held_s": row["held_s"]},
            )
        elif row["used"] is False:
            found = True
            state = f" (its log is {row['log']})" if row["log"] else ""
            yield ServerFinding(
                FAULT,
                f"Nobody uses the replication slot {name}{state}: it keeps the log, until the disk "
                "is full.",
                f"start its standby or subscriber, or `select pg_drop_replication_slot('{name}')`",
                {"slot": name, "age": row["age"]},
            )
        elif row["used"] and (row["age"] or 0) > _BEHIND[0]:
            found = True
            yield ServerFinding(
                FAULT if row["age"] > _BEHIND[1] else ADVICE,
                f"The {row['kind']} {name} holds back VACUUM for {row['age']:,} transactions: "
                "nothing that ended since can be cleaned up, and claims get slower.",
                "end long reads there, or set hot_standby_feedback to off there",
                {"slot": name, "age": row["age"]},
            )
    if not found:
        yield ServerFinding(FINE, "No prepared transaction or unused slot holds anything back.")


def log(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the server's log."""
    (row,) = rows
    found = False
    kept, most = row["kept"] or 0, row["most"]
    if kept > 2 * most:
        found = True
        yield ServerFinding(
            ADVICE,
            f"The replication slot {row['slot']} keeps {in_bytes(kept)} of log.",
            "look whether its reader keeps up; max_slot_wal_keep_size bounds it",
            {"slot": row["slot"], "kept": kept},
        )
    if row["archives"] and row["failed_at"] is not None:
        found = True
        yield ServerFinding(
            FAULT,
            f"The archiver fails, last at {instant(row['failed_at'])}: the log grows until the "
            "disk is full, and there is no backup of what happened since.",
            "look at the server's log for why archive_command fails",
            {"failed_at": row["failed_at"]},
        )
    if not found:
        yield ServerFinding(FINE, f"The log is kept for nobody, up to {in_bytes(most)} of it.")


def freeze(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge how far each database is from the end of the numbers of transactions."""
    late_share, times = _FREEZE
    found = False
    for row in rows:
        age = max(row["age"], row["multixacts"])
        if age <= times * row["due"]:
            continue
        found = True
        is_late = age > late_share * _WRAPAROUND
        yield ServerFinding(
            FAULT if is_late else ADVICE,
            f"The oldest transaction of the database {row['name']} is {age:,} transactions old; at "
            f"{_WRAPAROUND:,} the server stops.",
            "end what holds snapshots, prepared transactions and slots, then `vacuum freeze` there",
            {"database": row["name"], "age": age},
        )
    if not found:
        oldest = max((max(row["age"], row["multixacts"]) for row in rows), default=0)
        text = f"The oldest transaction is {oldest:,} old, of {_WRAPAROUND:,}."
        yield ServerFinding(FINE, text, figures={"age": oldest})


def cache_hits(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge how much of what is read comes from memory, and whether pages were damaged."""
    (row,) = rows
    total = row["hit"] + row["read"]
    share = row["hit"] / total if total else 1.0
    figures = {"hit": row["hit"], "read": row["read"], "damaged": row["damaged"]}
    if row["damaged"]:
        yield ServerFinding(
            FAULT,
            f"{counted(row['damaged'], 'page')} had a wrong checksum: the disk or its controller "
            "damages data.",
            "move to another machine by the latest backup, then `taskq audit`",
            figures,
        )
    if share < _HITS and row["read"] > _READ_PAGES:
        yield ServerFinding(
            ADVICE,
            f"{percent(share)} of the pages that were read were in shared_buffers "
            f"({in_bytes(row['buffers'])}): claims wait for the disk.",
            "raise shared_buffers, usually to a quarter of the memory",
            figures,
        )
    elif not row["damaged"]:
        yield ServerFinding(
            FINE, f"{percent(share)} of the pages read were in memory.", figures=figures
        )


def read_clock(queries: Queries) -> list[Row]:
    """Return how far the server's clock is ahead of this machine's, and how exactly that is."""
    before = time.time()
    (row,) = queries.rows("check_clock")
    after = time.time()
    return [{"ahead_s": row["server_s"] - (before + after) / 2, "within_s": (after - before) / 2}]


def clock(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the server's clock against that of this machine."""
    (row,) = rows
    ahead_s, within_s = row["ahead_s"], row["within_s"]
    figures = {"ahead_s": ahead_s, "within_s": within_s}
    off_s = abs(ahead_s)
    if off_s - within_s > _CLOCK_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        yield ServerFinding(
            ADVICE,
            f"The server's clock is {duration(off_s)} {way} this machine's: times are shown wrong, "
            "and tokens and certificates end early or late.",
            "let both follow a time server, such as by `timedatectl set-ntp true`",
            figures,
        )
    else:
        yield ServerFinding(FINE, "The server's clock and this machine's agree.", figures=figures)
