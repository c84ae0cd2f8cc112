"""Sessions for all agents of a load, opened in one statement."""

from __future__ import annotations

import secrets
import uuid

from benchmarks.load.clients import LEASE_S
from benchmarks.load.work import Credentials
from taskq.db.connections import Database
from taskq.db.tokens import Tokens, hashed, session_token


def enrolment_token(database: Database, path: str) -> str:
    """Return a new token of a site, with which agents can come for a campaign."""
    return Tokens(database).create("site", f"bench-{secrets.token_hex(4)}", [path])[0]


def opened(database: Database, path: str, count: int) -> tuple[Credentials, ...]:
    """Open sessions as a gateway would have opened them, by one statement.

    They outlive any measurement without heartbeats.
    """
    text, token = Tokens(database).create("site", f"bench-{secrets.token_hex(4)}", [path])
    tokens = {key: session_token(text, key) for key in (str(uuid.uuid4()) for _ in range(count))}
    rows = database.rows(
        "benchmarks.sql/sessions",
        path=path,
        token=token.token_id,
        keys=list(tokens),
        hashes=[hashed(token) for token in tokens.values()],
        lease_s=LEASE_S,
    )
    return tuple(Credentials(row["session_id"], tokens[row["key"]]) for row in rows)
