"""Bytes that a gateway keeps for clients, counted for each token and in all, and bounded.

Clients decide how long: they take answers slowly, or send bodies slowly. If there is too much, one
of the token with the most has to go: a client that got on with nothing for some seconds, else the
one that began last, so that the others come to their end. So a token that keeps much costs itself,
however many connections and sessions it has.

An answer in parts waits before each part until there is room for it. While anything waits, clients
that get on with nothing are not kept for long. So a crowd of honest clients on a narrow line is
slowed, and none of them is sent away.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

#: Who clients count for: the number of their site's or manager's token; of others the address.
Account: TypeAlias = int | str

#: Bytes of answers that clients have not taken: in all, and of one token. A connection counts once
#: its kernel's buffer and `HIGH_WATER_BYTES` are full.
MOST_UNTAKEN_BYTES: Final = 96 << 20
MOST_UNTAKEN_BYTES_OF_TOKEN: Final = 24 << 20
#: Bytes of bodies that are still arriving, in memory: in all, and of one token.
MOST_ARRIVING_BYTES: Final = 64 << 20
MOST_ARRIVING_BYTES_OF_TOKEN: Final = 16 << 20
#: Bytes of uploads in temporary files: in all, and of one token.
MOST_SPOOLED_BYTES: Final = 4 << 30
MOST_SPOOLED_BYTES_OF_TOKEN: Final = 1 << 30
#: Seconds without progress after which a client goes first.
PATIENCE_S: Final = 5.0


@dataclass(eq=False, slots=True)
class Kept:
    """What is kept for one client. drop: called when it has to go, after it was released.

    at: when its client last got on; inf while the client waits for us.
    """

    account: Account
    drop: Callable[[], None]
    size: int = 0
    at: float = 0.0


@dataclass(slots=True)
class _Account:
    size: int = 0
    # In the order in which they began.
    kept: dict[Kept, None] = field(default_factory=dict)
    # First come, first served; each with the bytes that it wants to keep.
    waiting: dict[asyncio.Future[None], tuple[Kept, int]] = field(default_factory=dict)


class KeptBytes:
    """Bytes of one kind; for one asyncio loop. size: of all of them."""

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most = most
        self._most_of_one = most_of_one
        self.size = 0
        self._accounts: dict[Account, _Account] = {}

    def of(self, account: Account) -> int:
        """Return the bytes of an account."""
        known = self._accounts.get(account)
        return 0 if known is None else known.size

    def is_full(self, account: Account, size: int = 0) -> bool:
        """Return whether an account has no room for more; one that has nothing always has."""
        own = self.of(account)
        if not own:
            return False
        if own + size > self._most_of_one:
            return True
        return self.size + size > self._most and own >= self._largest().size

    def keep(self, kept: Kept, size: int) -> None:
        """Keep so many bytes from now on, in place of those before; its client has got on."""
        has_shrunk = size < kept.size
        self._set(kept, size, time.monotonic())
        account = self._accounts.get(kept.account)
        while account is not None and account.size > self._most_of_one:
            self._drop(_victim(account))
        while self.size > self._most:
            self._drop(_victim(self._largest()))
        if has_shrunk:
            self._wake()

    def release(self, kept: Kept) -> None:
        """Keep nothing any more."""
        if kept.size:
            self._set(kept, 0, kept.at)
            self._wake()

    async def room(self, kept: Kept, size: int) -> None:
        """Wait until there is room for so many bytes, then keep them; the client waits for us."""
        account = self._of(kept.account)
        if not account.waiting and not self.is_full(kept.account, size):
            self.keep(kept, size)
            if kept.size:  # else it had to go at once
                kept.at = math.inf
            return
        turn = asyncio.get_running_loop().create_future()
        account.waiting[turn] = (kept, size)
        try:
            await turn
        finally:
            account.waiting.pop(turn, None)
            self._forget_if_empty(kept.account)

    def press(self) -> None:
        """Drop what is kept for clients that get on with nothing, where others wait for room."""
        since = time.monotonic() - PATIENCE_S
        for account in [account for account in self._accounts.values() if account.waiting]:
            _, size = next(iter(account.waiting.values()))
            own = account.size + size > self._most_of_one
            full = account if own else self._largest()
            for kept in [kept for kept in full.kept if kept.at < since]:
                self._drop(kept)

    def _of(self, account: Account) -> _Account:
        return self._accounts.setdefault(account, _Account())

    def _forget_if_empty(self, name: Account) -> None:
        account = self._accounts.get(name)
        if account is not None and not (account.kept or account.waiting):
            del self._accounts[name]

    def _largest(self) -> _Account:
        return max(self._accounts.values(), key=lambda account: account.size)

    def _set(self, kept: Kept, size: int, at: float) -> None:
        account = self._of(kept.account)
        grown = size - kept.size
        kept.size, kept.at = size, at
        account.size += grown
        self.size += grown
        if size:
            account.kept.setdefault(kept)
        else:
            account.kept.pop(kept, None)
            self._forget_if_empty(kept.account)

    def _drop(self, kept: Kept) -> None:
        self.release(kept)
        kept.drop()

    def _wake(self) -> None:
        """Give room to those that wait for it."""
        for name, account in [item for item in self._accounts.items() if item[1].waiting]:
            for turn, (kept, size) in list(account.waiting.items()):
                if turn.done():
                    continue
                if self.is_full(name, size):
                    break
                del account.waiting[turn]
                self._set(kept, size, math.inf)
                turn.set_result(None)


def _victim(account: _Account) -> Kept:
    slowest = min(account.kept, key=lambda kept: kept.at)
    if time.monotonic() - slowest.at >= PATIENCE_S:
        return slowest
    return next(reversed(account.kept))


@dataclass(frozen=True, slots=True)
class ClientBytes:
    """What a gateway keeps for clients, by kinds."""

    untaken: KeptBytes = field(
        default_factory=lambda: KeptBytes(MOST_UNTAKEN_BYTES, MOST_UNTAKEN_BYTES_OF_TOKEN)
    )
    arriving: KeptBytes = field(
        default_factory=lambda: KeptBytes(MOST_ARRIVING_BYTES, MOST_ARRIVING_BYTES_OF_TOKEN)
    )
    spooled: KeptBytes = field(
        default_factory=lambda: KeptBytes(MOST_SPOOLED_BYTES, MOST_SPOOLED_BYTES_OF_TOKEN)
    )
