"""Tokens themselves: made, known, named, revoked."""

from __future__ import annotations

import re
from typing import Any

import pytest

from taskq.db.connections import Database
from taskq.db.tokens import Tokens, hashed
from taskq.model.errors import Conflict, InvalidPath, NotFound, Unauthorized, UsageError
from tests.helpers.postgres import Postgres
from tests.helpers.variants import rest_thorough
from tests.integration.sessions.tokens.support import Enrol, identify


def test_database_never_sees_a_token(site: str, tokens: Tokens, postgres: Postgres) -> None:
    """256 random bits in the hands of anyone who created it, and a hash in the database."""
    assert re.fullmatch("tqe_[A-Za-z0-9_-]{43}", site)
    manager, made = tokens.create("manager", "ada", ["/"])
    assert re.fullmatch("tqm_[A-Za-z0-9_-]{43}", manager)
    rows = str(postgres.execute("select * from taskq.token").fetchall())
    assert repr(hashed(site)) in rows
    assert site[4:] not in rows
    assert manager[4:] not in str(made)


def test_name_is_free_again_when_its_token_is_revoked(tokens: Tokens, enrol: Enrol) -> None:
    """So that a successor can have it; until then it is taken."""
    old, _ = tokens.create("site", "site", ["/c"])
    with pytest.raises(Conflict, match="there is a token site; revoke it"):
        tokens.create("manager", "site", ["/c"])
    tokens.revoke("site")
    new, _ = tokens.create("site", "site", ["/c"])
    enrol(new)
    with pytest.raises(Unauthorized):
        enrol(old)
    assert [token.state for token in tokens.list()] == ["valid", "revoked"]


def test_managers_token_is_known_until_it_is_void(
    tokens: Tokens, database: Database, postgres: Postgres
) -> None:
    """With the campaigns that it is for; a site's token is nobody's here."""
    token, made = tokens.create("manager", "ada", ["/c", "/d"])
    stale, _ = tokens.create("manager", "bob", ["/"], days=1)
    site, _ = tokens.create("site", "site", ["/"])
    postgres.execute("update taskq.token set expires_at = now() where name = 'bob'")
    (found,) = identify(database, token, stale, site)
    assert (found["token_id"], found["session_id"]) == (made.token_id, None)
    assert found["paths"] == ["/c", "/d"]
    tokens.revoke("ada")
    assert identify(database, token) == []


def test_token_of_nobody_cannot_be_revoked(tokens: Tokens) -> None:
    """A misspelt name is reported, not passed over."""
    with pytest.raises(NotFound, match="no token nobody; `taskq token list`"):
        tokens.revoke("nobody")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    rest_thorough(
        [
            ({"name": ""}, "cannot be a token's name"),
            ({"name": "n" * 101}, "cannot be a token's name"),
            ({"name": "a\nb"}, "cannot be a token's name"),
            ({"paths": []}, "at least one campaign"),
            ({"days": 0}, "up to ten years"),
            ({"days": float("nan")}, "up to ten years"),
            ({"days": 4_000}, "up to ten years"),
            ({"max_uses": 0}, "token_max_uses_range"),
            ({"networks": ["192.0.2.1/24"]}, "has host bits set"),
            ({"networks": ["here"]}, "write 192.0.2.0/24"),
            ({"kind": "manager", "max_uses": 1}, "cannot have uses, networks or a site"),
            ({"kind": "manager", "networks": ["192.0.2.0/24"]}, "cannot have uses, networks"),
            ({"kind": "manager", "at_site": "cracow"}, "cannot have uses, networks or a site"),
            ({"at_site": ""}, "the name of a site"),
            ({"at_site": "a\n"}, "the name of a site"),
        ],
        6,
    ),
    ids=str,
)
def test_token_is_not_created_from_nonsense(
    wrong: dict[str, Any], reason: str, tokens: Tokens
) -> None:
    """The error names the value."""
    usual: dict[str, Any] = {"kind": "site", "name": "some", "paths": ["/c"]}
    with pytest.raises(UsageError, match=reason):
        tokens.create(**(usual | wrong))
    assert tokens.list() == ()


def test_malformed_path_of_a_token_is_refused_before_the_server_is_asked(tokens: Tokens) -> None:
    """Before anything is asked of the server."""
    with pytest.raises(InvalidPath, match="must start with '/'"):
        tokens.create("site", "some", ["c"])
