"""Who keeps the queue, and what of it ends soon."""

from __future__ import annotations

from collections.abc import Iterator

from taskq.db.checks.findings import ADVICE, FAULT, FINE, ServerFinding
from taskq.db.rows import Row
from taskq.model.words import command, counted, instant

_NAMED = 3


def keeper(rows: list[Row]) -> Iterator[ServerFinding]:
    """Judge whether a keeper acts."""
    (row,) = rows
    until = row["until"]
    if until is not None and until >= row["now"]:
        yield ServerFinding(FINE, "A keeper acts.", figures={"until": until})
        return
    since = f" since {instant(until)}" if until else ""
    yield ServerFinding(
        FAULT if row["has_agents"] else ADVICE,
        f"No keeper has acted{since}: delayed tasks stay delayed, and lost agents keep their "
        "tasks.",
        f"run `{command('keeper')}`, a gateway, or an agent with a connection of its own",
        {"until": until},
    )


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
