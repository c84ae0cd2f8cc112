"""Tokens of a queue, and hellos with them."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from taskq import Campaign, Client
from taskq.db.connections import Database
from taskq.db.tokens import Tokens, hashed, session_token
from taskq.model.errors import BY_SQLSTATE
from tests.integration.sessions.tokens.support import Enrol


@pytest.fixture
def tokens(queue: Client, campaign: Campaign) -> Tokens:
    """Give the tokens of a queue with the campaigns /c, /c/below and /d."""
    queue.create_campaign(f"{campaign.path}/below")
    queue.create_campaign("/d")
    return queue.tokens


@pytest.fixture
def site(tokens: Tokens) -> str:
    """Give a token for /c."""
    return tokens.create("site", "site", ["/c"])[0]


@pytest.fixture
def enrol(database: Database) -> Enrol:
    """Give a function that says hello with a token as a gateway does."""

    def say_hello(token: str, path: str = "/c", **changed: object) -> dict[str, Any]:
        key = changed.setdefault("key", str(uuid.uuid4()))
        words: dict[str, object] = {
            "place": 7,
            "token_hash": f"\\x{hashed(token).hex()}",
            "session_hash": f"\\x{hashed(session_token(token, str(key))).hex()}",
            "address": "192.0.2.7",
            "path": path,
            "agent": "",
            "host": "",
            "site": "",
            "pid": 1,
            "slots": 1,
            "release": "",
            "offers": ["gpu"],
        }
        hellos = json.dumps([words | changed])
        (row,) = database.rows("enrol_many", hellos=hellos, lease_s=120.0)
        if row["refused"] is not None:
            raise BY_SQLSTATE[row["refused"]](row["reason"])
        return row

    return say_hello
