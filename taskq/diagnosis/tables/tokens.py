"""Tokens: columns."""

from __future__ import annotations

from typing import Final

from taskq.db.tokens import Token
from taskq.model.columns import Column


def _uses(token: Token) -> str | None:
    if token.kind != "site":
        return None
    return str(token.uses) if token.max_uses is None else f"{token.uses} of {token.max_uses}"


TOKENS: Final[tuple[Column[Token], ...]] = (
    Column("name"),
    Column("kind"),
    Column("state"),
    Column("expires", lambda token: token.expires_at),
    Column("uses", _uses),
    Column("sessions", lambda token: token.sessions if token.kind == "site" else None),
    Column("campaigns", lambda token: token.paths),
    Column("site", lambda token: token.at_site, gives_way=True),
    Column("networks", gives_way=True),
    Column("created", lambda token: token.created_at, gives_way=True),
)
