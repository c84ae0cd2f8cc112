"""Entries of the front, from PostgreSQL alone, and the buffer of those popped ahead."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from typing import Any

import msgspec
import pytest

from taskq.front.buffer import AHEAD_S, KEEP_S, MOST, Buffer
from taskq.front.entries import Entry, FrontState, open_entry
from taskq_agent.protocol import Task

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
def test_entry_that_postgresql_did_not_make_is_refused(raw: bytes) -> None:
    """Anyone who can write into Redis cannot have agents run anything."""
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
def test_sealed_but_unreadable_entry_is_refused(body: bytes) -> None:
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


CAMPAIGN = 7


def entries(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


def opened(raw: bytes, campaign: int, _now: float) -> Entry | None:
    """Open an entry that is only the number of its task; those below 0 are not good."""
    number = int(raw)
    task = Task(campaign, 1, number, "k", 1, f"lease {number}", {})
    return Entry(task, raw, float("inf")) if number >= 0 else None


def claimed_at_rate(per_s: int, seconds: float = 2.0) -> Buffer:
    """Return a buffer from which so many tasks were claimed each second, one at a time."""
    buffer = Buffer(CAMPAIGN, 0.0)
    for number in range(int(per_s * seconds)):
        now = number / per_s
        buffer.put(entries(number))
        buffer.claim(1, now, opened)
        buffer.learn(now)
    return buffer


def test_entries_are_handed_out_in_order_and_once() -> None:
    """A claim gets as many as there are, up to what it wants."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(0, 1, 2, 3, 4))
    shares = [buffer.claim(2, 0.0, opened) for _ in range(4)]
    assert [[value.task.task for value in share] for share in shares] == [[0, 1], [2, 3], [4], []]
    assert {value.task.campaign for share in shares for value in share} == {CAMPAIGN}


def test_entry_that_is_not_good_is_not_handed_out_and_counts_as_none() -> None:
    """It may be forged, or its lease be somebody else's before the agent's first beat."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(-1, 5, -1, -1, 6, 7))
    assert [task.task.task for task in buffer.claim(2, 0.0, opened)] == [5, 6]


def test_time_of_a_claim_is_the_time_at_which_its_entries_are_judged() -> None:
    """What was young when it was popped may be too old by then."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(1))
    judged: list[float] = []
    assert buffer.claim(1, 10.0, lambda _raw, _campaign, now: judged.append(now)) == []
    assert judged == [10.0]


def test_nothing_is_taken_ahead_of_the_first_claims() -> None:
    """A gateway that claims now and then leaves the lists to the others."""
    buffer = Buffer(CAMPAIGN, 0.0)
    assert buffer.target == 0
    assert not buffer.is_low()


def test_buffer_holds_what_is_claimed_in_a_moment() -> None:
    """It follows the rate of claims, within bounds."""
    buffer = claimed_at_rate(2_000)
    assert abs(buffer.target - 2_000 * AHEAD_S) < 0.2 * 2_000 * AHEAD_S
    assert claimed_at_rate(100_000, 0.5).target == MOST


def test_more_is_fetched_when_a_third_is_gone_and_only_once() -> None:
    """So claims do not wait for Redis, and pops are few."""
    buffer = claimed_at_rate(2_000)
    buffer.put(entries(*range(buffer.target)))
    buffer.claim(buffer.target // 4, 2.0, opened)
    assert not buffer.is_low()
    buffer.claim(buffer.target // 8, 2.0, opened)
    assert buffer.is_low()
    buffer.popping = True
    assert not buffer.is_low()


def test_rate_is_forgotten_when_claims_stop() -> None:
    """What was claimed a minute ago is no reason to take anything now."""
    buffer = claimed_at_rate(2_000)
    for second in range(3, 20):
        buffer.learn(float(second))
    assert buffer.target == 0


def test_remaining_entries_can_be_given_back() -> None:
    """All of it, and it is not handed out any more."""
    buffer = Buffer(CAMPAIGN, 0.0)
    buffer.put(entries(0, 1, 2))
    buffer.claim(1, 1.0, opened)
    assert buffer.claimed_at == 1.0
    assert buffer.emptied() == entries(1, 2)
    assert not buffer
    assert buffer.claim(1, 1.0 + KEEP_S, opened) == []
