"""Entries of the front: only what PostgreSQL made is taken, and only while it may be handed out."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import Any

import msgspec
import pytest

from taskq.front.entries import FrontState, open_entry

SECRET = bytes(range(32))
NOW_MS = 1_795_228_800_000
STATE = FrontState("0123456789abcdef", 3, SECRET, pool_s=120.0, offset_ms=0.0)
FIELDS = [17, 2, 4711, 1, NOW_MS, "ligand-4711", {"smiles": "CCO", "charge": 1.50}]


def sealed(body: bytes, secret: bytes = SECRET) -> bytes:
    """Return an entry as PostgreSQL makes it."""
    return hmac.new(secret, body, hashlib.sha256).hexdigest()[:32].encode() + body


def entry(fields: list[Any] = FIELDS, secret: bytes = SECRET) -> bytes:
    return sealed(json.dumps(fields).encode(), secret)


def test_entry_gives_the_task_that_was_leased() -> None:
    """All that an agent needs is in an entry."""
    opened = open_entry(entry(), STATE)
    assert opened is not None
    assert opened.raw == entry()
    task = opened.task
    assert (task.campaign, task.revision, task.task, task.attempt) == (17, 2, 4711, 1)
    assert task.key == "ligand-4711"
    assert msgspec.json.decode(msgspec.json.encode(task))["payload"] == FIELDS[6]


def test_lease_id_is_derived_from_the_part_of_the_digest_that_is_not_in_redis() -> None:
    """Who reads the lists learns no lease; the database derives the same one."""
    opened = open_entry(entry(), STATE)
    assert opened is not None
    lease = uuid.UUID(opened.task.lease)
    digest = hmac.new(SECRET, json.dumps(FIELDS).encode(), hashlib.sha256).hexdigest()
    hidden = digest[32:]
    assert lease.version == 8
    assert lease.variant == uuid.RFC_4122
    assert lease.int >> 80 == NOW_MS
    assert lease.hex[12:] == f"8{hidden[:3]}8{hidden[3:18]}"
    assert str(lease) == opened.task.lease


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"garbage",
        b"\xff" * 100,
        b"0" * 32,
        b"0" * 32 + json.dumps(FIELDS).encode(),
        entry()[:-1],
        entry() + b" ",
        entry().upper(),
        entry().replace(b"4711", b"4712"),
        entry(secret=bytes(32)),
        "ä".encode() * 16 + json.dumps(FIELDS).encode(),
    ],
)
def test_what_postgresql_did_not_make_is_no_entry(raw: bytes) -> None:
    """Whoever can write into Redis cannot have agents run anything."""
    assert open_entry(raw, STATE) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"[1, 2, 3]",
        json.dumps(["17", *FIELDS[1:]]).encode(),
        json.dumps(FIELDS[:6]).encode(),
        b"[" * 10_000,
        json.dumps(FIELDS).encode().replace(b"ligand", b"\xff\xfe"),
    ],
)
def test_what_is_sealed_but_cannot_be_read_is_no_entry(body: bytes) -> None:
    """A defect elsewhere costs no more than the entry."""
    assert open_entry(sealed(body), STATE) is None


def test_entry_may_be_handed_out_in_the_first_half_of_its_time() -> None:
    """In the other half the agent's first beat must arrive, before the task waits again."""
    opened = open_entry(entry(), STATE)
    assert opened is not None
    assert opened.until * 1000 == NOW_MS + STATE.pool_s * 500


def test_database_time_is_never_thought_earlier_than_it_is() -> None:
    """The clock is the database's; what a slow answer leaves unknown makes entries older."""
    row = {"name": "n", "epoch": 1, "secret": SECRET, "pool_s": 60.0, "now_ms": NOW_MS}
    state = FrontState.from_row(row, asked_at=1_000.0)
    assert state.until(NOW_MS) == 1_000.0 + 30.0
    assert state.until(NOW_MS - 2_500) == 1_000.0 + 30.0 - 2.5


def test_state_does_not_show_its_secret() -> None:
    """Messages and tracebacks must not give it away."""
    assert "secret" not in repr(STATE)
    assert SECRET.hex() not in repr(STATE)


def test_all_keys_of_a_queue_share_one_hash_tag() -> None:
    """A Redis Cluster keeps them on one node, or else no script could use two of them."""
    keys = STATE.keys
    names = [keys.state, keys.wanted, keys.wake, keys.tasks(1), keys.tasks(2**62)]
    assert len(set(names)) == len(names)
    assert all(name.startswith(b"taskq:{0123456789abcdef}:") for name in names)
