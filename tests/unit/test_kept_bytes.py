"""Bytes kept for clients: who has to go when there are too many, and who waits."""

from __future__ import annotations

import asyncio

import pytest

from taskq.gateway.http import kept_bytes
from taskq.gateway.http.kept_bytes import Kept, KeptBytes

MOST, MOST_OF_ONE = 100, 40


class Clock:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(kept_bytes.time, "monotonic", lambda: self.now)


class Clients:
    """What is kept for some clients, and who had to go."""

    def __init__(self) -> None:
        self.all = KeptBytes(MOST, MOST_OF_ONE)
        self.gone: list[str] = []

    def keep(self, account: int, name: str, size: int) -> Kept:
        """Keep bytes for a client."""
        kept = Kept(account, lambda: self.gone.append(name))
        self.all.keep(kept, size)
        return kept


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Give a clock that stands."""
    return Clock(monkeypatch)


@pytest.mark.usefixtures("clock")
def test_of_a_token_that_keeps_too_much_the_last_client_goes() -> None:
    """So that the others come to their end."""
    clients = Clients()
    first = clients.keep(1, "first", 20)
    clients.keep(1, "second", 20)
    clients.keep(2, "other", 40)
    clients.keep(1, "third", 1)
    assert clients.gone == ["third"]
    clients.all.keep(first, 25)
    assert clients.gone == ["third", "second"]
    assert (clients.all.of(1), clients.all.of(2), clients.all.size) == (25, 40, 65)


def test_client_that_gets_on_with_nothing_goes_first(clock: Clock) -> None:
    """After some seconds; one that gets on begins anew."""
    clients = Clients()
    first, second = (clients.keep(1, name, 15) for name in ("first", "second"))
    clock.now = kept_bytes.PATIENCE_S
    clients.all.keep(first, 10)
    clients.keep(1, "third", 16)
    assert clients.gone == ["second"]
    clients.all.release(second)  # again, as its connection does
    assert clients.all.of(1) == 26


@pytest.mark.usefixtures("clock")
def test_of_all_tokens_that_with_the_most_loses_one() -> None:
    """It does not matter who came last."""
    clients = Clients()
    for account in (1, 2):
        clients.keep(account, f"{account}", 39)
    clients.keep(3, "3", 20)
    clients.keep(1, "1 again", 1)
    clients.keep(4, "4", 10)
    assert clients.gone == ["1 again", "1"]
    assert clients.all.size <= MOST
    assert (clients.all.of(3), clients.all.of(4)) == (20, 10)


@pytest.mark.usefixtures("clock")
async def test_requests_that_wait_for_room_get_it_in_order() -> None:
    """One that leaves gives its turn to the next; another token waits for nobody."""
    clients = Clients()
    held = clients.keep(1, "held", 40)
    waiting = [Kept(1, lambda: None) for _ in range(3)]
    turns = [asyncio.create_task(clients.all.room(task, 15)) for task in waiting]
    await asyncio.sleep(0)
    await clients.all.room(Kept(2, lambda: None), 30)
    turns[0].cancel()
    await asyncio.sleep(0)
    clients.all.keep(held, 20)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [turn.done() for turn in turns] == [True, True, False]
    clients.all.release(waiting[1])
    await turns[2]
    assert clients.all.of(1) == 35
    assert clients.gone == []


async def test_idle_clients_go_where_others_wait_and_only_there(clock: Clock) -> None:
    """Those for whom something is being fetched wait for us, and stay."""
    clients = Clients()
    idle = clients.keep(1, "idle", 20)
    fetching = Kept(1, lambda: clients.gone.append("fetching"))
    await clients.all.room(fetching, 20)
    clients.keep(2, "other", 20)
    clock.now = 2 * kept_bytes.PATIENCE_S
    clients.all.press()
    assert clients.gone == []
    turn = asyncio.create_task(clients.all.room(Kept(1, lambda: None), 10))
    await asyncio.sleep(0)
    clients.all.press()
    assert clients.gone == ["idle"]
    await turn
    assert (idle.size, fetching.size) == (0, 20)


@pytest.mark.usefixtures("clock")
async def test_nothing_is_left_of_tokens_that_keep_nothing() -> None:
    """However many there were."""
    clients = Clients()
    for account in range(50):
        kept = clients.keep(account, "", 1)
        await clients.all.room(kept, 2)
        clients.all.release(kept)
    assert vars(clients.all)["_accounts"] == {}
