"""Who keeps the queue, and what of it ends soon."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from taskq.db.checks.findings import ADVICE, FAULT, FINE, ServerFinding
from taskq.db.rows import Row
from taskq.model.words import DAY_S, beginning, command, counted, duration, instant
from taskq_agent.units import in_bytes

_NAMED: Final = 3
#: Seconds that sums of ended attempts may be behind: usually it is some seconds.
_LATE_S: Final = 900.0
#: Characters of the last words of a program.
_WORDS: Final = 300
#: A disk is nearly full if less than a tenth of it, and less than this many bytes, are free; or if
#: it will be full within so many seconds.
_FREE_SHARE: Final = 0.1
_FREE_BYTES: Final = 20 * 10**9
_SOON_S: Final = float(DAY_S)
_LATER_S: Final = 7.0 * DAY_S
_MAKE_ROOM: Final = (
    "Make room, such as by `taskq campaign rm` of what has ended, or give it a larger disk"
)


def without_keeper(until: datetime | None, now: datetime) -> str:
    """Return what it means that no keeper acts; nothing if one does.

    until: how long the last one acts unless it renews; None: there was none.
    """
    if until is not None and until >= now:
        return ""
    since = f" since {instant(until)}" if until else ""
    return (
        f"No keeper has acted{since}: delayed tasks stay delayed, and lost agents keep their tasks."
    )


def keeper(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge whether a keeper acts."""
    (row,) = rows
    until = row["until"]
    gap = without_keeper(until, row["now"])
    if not gap:
        waits_s = (row["now"] - row["waits_since"]).total_seconds()
        yield (
            _late_sums(row)
            if waits_s > _LATE_S
            else ServerFinding(FINE, "A keeper acts.", figures={"until": until})
        )
        return
    yield ServerFinding(
        FAULT if row["has_agents"] else ADVICE,
        gap,
        f"run `{command('keeper')}`, a gateway, or an agent with a connection of its own",
        {"until": until},
    )


def _late_sums(row: Row) -> ServerFinding:
    late_s = (row["now"] - row["summed"]).total_seconds()
    return ServerFinding(
        ADVICE,
        f"A keeper acts, but sums of ended attempts are {duration(late_s)} behind, with what "
        f"`{command('usage')}` and verdicts on hosts and sites read of them: all until "
        f"{instant(row['summed'])} are there.",
        "end a transaction that has written for so long, which the finding `snapshot` may name; "
        "without one the keeper catches up by itself, or its log says what fails",
        {"until": row["until"], "summed": row["summed"]},
    )


def programs(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge programs that ended by an error. rows: of `check_stopped.sql`."""
    if not rows:
        yield ServerFinding(FINE, "No gateway, keeper or other program has ended by an error.")
    for row in rows:
        program, host, why = (" ".join(row[name].split()) for name in ("program", "host", "why"))
        often = ""
        if row["times"] > 1:
            often = f"{row['times']:,} times since {instant(row['first_at'])}, last "
        yield ServerFinding(
            FAULT,
            f"`{program}` on {host} ended by an error {often}at {instant(row['last_at'])}: "
            f"{beginning(why, _WORDS)}.",
            "mend what it says, and start it again; this finding goes half a minute later, or "
            "after a day",
            {name: row[name] for name in ("program", "host", "login", "why", "last_at", "times")},
        )


def retention(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge what the keeper removes soon, and what of it nobody archives."""
    (row,) = rows
    number, late = row["campaigns"], row["not_archived"]
    figures = dict(row)
    if not number:
        yield ServerFinding(FINE, "No campaign is removed within a week.", figures=figures)
        return
    first = f"the first, {row['path']}, at {instant(row['due_at'])}"
    text = f"{counted(number, 'campaign')} will be removed within a week, {first}."
    if late:
        yield ServerFinding(
            ADVICE,
            f"{text} {counted(late, 'campaign')} of them must be archived first, and nobody does.",
            f"run `{command('keeper')} --archive-to FOLDER` as an operator",
            figures,
        )
    elif row["trouble"]:
        yield ServerFinding(
            ADVICE,
            f"{text} The last try failed: {row['trouble']}.",
            f"`{command('campaign', 'show')} PATH` says of which; it is tried again in an hour",
            figures,
        )
    else:
        yield ServerFinding(FINE, text, figures=figures)


def agent_clocks(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the clocks of agents, as they report them."""
    if not rows:
        yield ServerFinding(FINE, "No agent reports that its clock is off.")
        return
    hosts = [row["host"] or "an unnamed host" for row in rows]
    more = f" and {len(hosts) - _NAMED:,} more" if len(hosts) > _NAMED else ""
    yield ServerFinding(
        ADVICE,
        f"The clock is off by more than a minute on {', '.join(hosts[:_NAMED])}{more}: its agents "
        "refuse valid certificates, and misjudge when their jobs end.",
        "let these hosts follow a time server",
        {"hosts": hosts},
    )


def tokens(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the tokens that end soon."""
    if not rows:
        yield ServerFinding(FINE, "No token ends soon.")
    for row in rows:
        yield ServerFinding(
            ADVICE,
            f"The {row['kind']} token {row['name']} ends at {instant(row['expires_at'])}.",
            f"make its successor with `{command('token', 'create')}` now; both work until then",
            {"token": row["name"], "expires_at": row["expires_at"]},
        )


def certificates(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the certificates of gateways that end soon."""
    if not rows:
        yield ServerFinding(FINE, "No certificate of a gateway ends soon.")
    for row in rows:
        ends = "has ended" if row["has_ended"] else "ends"
        yield ServerFinding(
            FAULT if row["has_ended"] else ADVICE,
            f"The certificate of the gateway {row['name']} {ends} at {instant(row['ends'])}: "
            "agents and people do not trust it after that.",
            "put the new one in the place of its file: the gateway reads it within a minute",
            {"gateway": row["name"], "ends": row["ends"]},
        )


def passwords(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge the passwords of logins that end soon."""
    if not rows:
        yield ServerFinding(FINE, "No password of a login ends soon.")
    for row in rows:
        ends = "has ended" if row["has_ended"] else "ends"
        yield ServerFinding(
            FAULT if row["has_ended"] else ADVICE,
            f"The password of the login {row['login']} {ends} at {instant(row['until'])}.",
            f"`alter role \"{row['login']}\" valid until 'infinity'`, or a new password and date",
            {"login": row["login"], "until": row["until"]},
        )


def places(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge where each login of the database can store without limit."""
    if not rows:
        yield ServerFinding(FINE, "No login can store without limit outside the queue.")
        return
    yield ServerFinding(
        ADVICE,
        f"Every login can store without limit in {counted(len(rows), 'place')}: "
        f"{', '.join(row['place'] for row in rows)}.",
        "; ".join(f"`{row['remedy']}`" for row in rows),
        {"places": [row["place"] for row in rows]},
    )


def disks(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge how full the disks are that the queue needs. rows: of `disks.sql`."""
    if not rows:
        yield ServerFinding(
            ADVICE,
            "Nobody measures how full the server's disk is, so seeds fill it until the server "
            "stops.",
            "run `taskq keeper --disk FOLDER` on the server's machine, with the folder of its "
            "data; or `taskq keeper --disk-size SIZE` anywhere",
        )
    for row in rows:
        free, in_s = row["free"], row["full_in_s"]
        left = f"{in_bytes(free)} of {in_bytes(row['size'])} are free"
        if in_s is not None and not row["is_full"]:
            left += f", and at this rate it is full in {duration(in_s)}"
        nearly = min(_FREE_SHARE * row["size"], _FREE_BYTES)
        figures = {"disk": row["place"]} | {
            name: row[name] for name in ("free", "size", "kept", "full_in_s")
        }
        if row["is_full"]:
            yield ServerFinding(
                FAULT,
                f"The disk of {row['place']} is full but for what is kept for reports, claims and "
                f"removing: {left}. Seeds, inputs and large results are refused.",
                _MAKE_ROOM,
                figures,
            )
        elif free < max(nearly, 1.5 * row["kept"]) or (in_s is not None and in_s < _SOON_S):
            yield ServerFinding(
                FAULT, f"The disk of {row['place']} is nearly full: {left}.", _MAKE_ROOM, figures
            )
        else:
            is_later = in_s is not None and in_s < _LATER_S
            text = f"Of the disk of {row['place']}, {left}."
            yield ServerFinding(
                ADVICE if is_later else FINE, text, _MAKE_ROOM if is_later else "", figures
            )
