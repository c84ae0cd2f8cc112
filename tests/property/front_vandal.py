"""Somebody who may write into Redis, and would destroy a front."""

from __future__ import annotations

import hmac
import random
import secrets
from collections.abc import Sequence
from typing import Any

import redis

from taskq.front.entries import Keys


class Vandal:
    """Somebody who may do all that Redis lets one do, and reads everything there."""

    def __init__(self, admin: redis.Redis, keys: Keys, campaigns: Sequence[int]) -> None:
        self._admin = admin
        self._keys = keys
        self._lists = [keys.tasks(campaign) for campaign in campaigns]
        self._saved: tuple[dict[Any, Any], list[list[bytes]]] = {}, [[] for _ in campaigns]
        self._secret = secrets.token_bytes(32)

    def flush(self, _: int) -> None:
        """Remove everything, the scripts as well."""
        self._admin.flushall()
        self._admin.script_flush()

    def save(self, _: int) -> None:
        """Take a snapshot."""
        is_there = self._is("hash", self._keys.state)
        state: dict[Any, Any] = self._admin.hgetall(self._keys.state) if is_there else {}
        self._saved = state, [self._entries(name) for name in self._lists]

    def restore(self, _: int) -> None:
        """Bring the old snapshot back, as a server does that lost its last writes."""
        state, lists = self._saved
        self._admin.delete(self._keys.state, *self._lists)
        if state:
            self._admin.hset(self._keys.state, mapping=state)
        for name, entries in zip(self._lists, lists, strict=True):
            if entries:
                self._admin.rpush(name, *entries)

    def bring_back(self, which: int) -> None:
        """Put what was in the snapshot before what is there."""
        for name, entries in zip(self._lists, self._saved[1], strict=True):
            if entries and self._is("list", name):
                self._admin.lpush(name, *entries[which % len(entries) :])

    def repeat(self, which: int) -> None:
        """Have an entry twice."""
        name, entry = self._one(which)
        if entry:
            self._admin.lpush(name, entry)

    def shuffle(self, which: int) -> None:
        """Have a list in another order."""
        name, _ = self._one(which)
        entries = self._entries(name)
        if entries:
            random.Random(which).shuffle(entries)
            self._admin.delete(name)
            self._admin.rpush(name, *entries)

    def drop(self, which: int) -> None:
        """Take an entry away."""
        name, entry = self._one(which)
        if entry:
            self._admin.lrem(name, 1, entry)  # type: ignore[arg-type]  # it takes bytes as well

    def move(self, which: int) -> None:
        """Move an entry into another campaign's list."""
        name, entry = self._one(which)
        other = self._lists[(self._lists.index(name) + 1) % len(self._lists)]
        if entry and self._is("list", other):
            self._admin.lrem(name, 1, entry)  # type: ignore[arg-type]  # it takes bytes as well
            self._admin.lpush(other, entry)

    def forge(self, which: int) -> None:
        """Make an entry out of one that is there, or of nothing."""
        name, entry = self._one(which)
        entry = entry or b"0" * 32 + b'[1,0,1,1,1,"k0",{}]'
        tag, body = entry[:32], entry[32:]
        altered = body.replace(b",1,", b",2,", 1)
        sealed = hmac.digest(self._secret, altered, "sha256").hex().encode()
        made = (tag + altered, sealed[:32] + altered, entry[:-1], tag, b"", b"\xff\0garbage", body)
        if self._is("list", name):
            self._admin.lpush(name, made[which % len(made)])

    def spoil(self, which: int) -> None:
        """Turn a key into what it should not be."""
        keys = [*self._lists, self._keys.state, self._keys.wake, self._keys.wanted]
        self._admin.set(keys[which % len(keys)], "x")

    def set_epoch(self, which: int) -> None:
        """Set the epoch back, or forward, or to what is none."""
        if self._is("hash", self._keys.state):
            known = self._admin.hget(self._keys.state, "epoch") or b""
            epoch = int(known) if known.isdigit() else 0  # it may be what this has made of it
            others = (epoch - 1, epoch + 1, "x", "")
            self._admin.hset(self._keys.state, "epoch", others[which % len(others)])

    def want(self, which: int) -> None:
        """Ask for what nobody wants, and for what there is none of."""
        if self._is("set", self._keys.wanted):
            self._admin.sadd(self._keys.wanted, "x", "99999999999999999999", str(which))

    def hang_up(self, _: int) -> None:
        """Close everybody's connections."""
        self._admin.client_kill_filter(_type="normal", skipme=True)

    def _one(self, which: int) -> tuple[bytes, bytes | None]:
        name = self._lists[which % len(self._lists)]
        entries = self._entries(name)
        return name, entries[which // len(self._lists) % len(entries)] if entries else None

    def _entries(self, name: bytes) -> list[bytes]:
        found: list[Any] = self._admin.lrange(name, 0, -1) if self._is("list", name) else []
        return found

    def _is(self, kind: str, name: bytes) -> bool:
        return self._admin.type(name) in {kind.encode(), b"none"}
