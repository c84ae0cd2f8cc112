"""Tokens: credentials with which sites open sessions and managers use the gateway's API.

A token is 256 random bits. The database stores its SHA-256 only, so a token cannot be read there;
a lost one must be replaced by a new one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_network
from typing import Final, Literal, TypeAlias

from taskq.db.access import Queries
from taskq.model.errors import NotFound, UsageError
from taskq.model.given import names
from taskq.model.seed import check_path, check_text

Kind: TypeAlias = Literal["site", "manager", "submitter", "pickler"]

DAYS: Final = 30.0
MAX_NAME_CHARS: Final = 100
MAX_SITE_CHARS: Final = 200
_BYTES: Final = 32
_SITE_PREFIX: Final = "tqe_"
_MANAGER_PREFIX: Final = "tqm_"
_SESSION_PREFIX: Final = "tqs_"
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class Token:
    """A token's record in the database.

    paths: the campaigns that it permits, each with all below it. networks: from which sessions may
    be opened; empty means any. uses: sessions opened with it, `max_uses` at most. sessions: those
    still open. max_output_bytes: bytes of output files that its agents may have stored. at_site:
    the site of its agents; None means the one that they name. state: valid, used up, expired or
    revoked.
    """

    token_id: int
    kind: str
    name: str
    paths: list[str]
    networks: list[str]
    max_uses: int | None
    uses: int
    sessions: int
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    state: str
    max_output_bytes: int
    at_site: str | None


@dataclass(frozen=True, slots=True)
class Revoked:
    """Result of a revocation: how many sessions it ended, and how many attempts they held."""

    sessions: int
    attempts: int


class Tokens:
    """The tokens of a queue."""

    def __init__(self, database: Queries) -> None:
        self._database = database

    def create(
        self,
        kind: Kind,
        name: str,
        paths: Sequence[str],
        *,
        days: float = DAYS,
        max_uses: int | None = None,
        networks: Sequence[str] = (),
        max_output_bytes: int | None = None,
        at_site: str | None = None,
    ) -> tuple[str, Token]:
        """Create a token; return its text, which is stored nowhere, and its record.

        kind: "site" for agents, the others for people: a "manager" looks, steers and adds tasks, a
        "submitter" also creates and changes campaigns, a "pickler" also sends functions by value.
        name: unique among the tokens that are not revoked. paths: campaigns that exist. days: until
        it expires, ten years at most. max_uses, networks: how many sessions a site's token can
        open, and from which networks or addresses, such as `192.0.2.0/24`. max_output_bytes: bytes
        of output files that its agents may have stored; 100 GiB by default. at_site: the site of
        its agents; without it, bans and limits of sites go by the site that agents name.

        Raise `UsageError` for an invalid value, `NotFound` if there is no such campaign,
        `Conflict` if the name is taken.
        """
        if not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable():
            raise UsageError(f"{name!r:.120} cannot be a token's name; use up to 100 characters")
        check_text("the name", name)
        paths, networks = list(names("paths", paths)), list(names("networks", networks))
        if not paths:
            raise UsageError("a token is for at least one campaign; / stands for all")
        if kind != "site" and (max_uses is not None or networks or at_site is not None):
            raise UsageError(
                "a manager's token cannot have uses, networks or a site: it opens no sessions"
            )
        if at_site is not None:
            check_text("the site", at_site)
            if not 1 <= len(at_site) <= MAX_SITE_CHARS or not at_site.isprintable():
                raise UsageError(
                    f"{at_site!r:.120} cannot be the name of a site; use up to 200 characters"
                )
        prefix = _SITE_PREFIX if kind == "site" else _MANAGER_PREFIX
        text = prefix + _encoded(secrets.token_bytes(_BYTES))
        token_id = self._database.value(
            "create_token",
            kind=kind,
            name=name,
            hash=hashed(text),
            paths=[check_path(path) for path in paths],
            lifetime_s=days * _DAY_S,
            networks=[_network(network) for network in networks],
            max_uses=max_uses,
            max_output_bytes=max_output_bytes,
            at_site=at_site,
        )
        (row,) = self._database.rows("tokens", token=token_id)
        return text, Token(**row)

    def list(self) -> tuple[Token, ...]:
        """Return all tokens, newest first."""
        return tuple(Token(**row) for row in self._database.rows("tokens", token=None))

    def revoke(self, name: str) -> Revoked:
        """Revoke a token at once, and end the sessions that it has opened.

        Other agents get the tasks of these sessions, which counts neither as failure nor as loss.
        Idempotent. Raise `NotFound` if there never was such a token.
        """
        try:
            row = self._database.row("revoke_token", name=name)
        except NotFound:
            raise NotFound(f"no token {name}; `taskq token list` shows what there is") from None
        return Revoked(**row or {})


def session_token(enrolment_token: str, key: str) -> str:
    """Return the session token for a hello with this key.

    HMAC-SHA256 derives it, so that a repeated hello gets the same token although only a hash is
    stored. Nobody can compute it without the enrolment token. Raise `UsageError` if the key is not
    a UUID in the spelling of `uuid.UUID`: another spelling would make another token.
    """
    try:
        canonical = str(uuid.UUID(key)) == key
    except ValueError:
        canonical = False
    if not canonical:
        raise UsageError(f"{key!r:.80} is not the key of a hello: draw a UUID")
    derived = hmac.digest(_bytes(enrolment_token), key.encode(), "sha256")
    return _SESSION_PREFIX + _encoded(derived)


def hashed(token: str) -> bytes:
    """Return the digest that the database stores for a token."""
    return hashlib.sha256(_bytes(token)).digest()


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")  # any text that a client sends is valid here


def _encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise UsageError(f"no network: {error}; write 192.0.2.0/24 or 2001:db8::/32") from None
