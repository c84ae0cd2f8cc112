"""Threads that do something next to a block of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

_TIMEOUT_S = 60.0


@contextmanager
def meanwhile(*works: Callable[[Event], object]) -> Iterator[list[Thread]]:
    """Run each in a thread of its own; at the end of the block set the event, and wait for them.

    What one of them raises fails the test. Give the threads.
    """
    over = Event()
    troubles: list[BaseException] = []

    def run(work: Callable[[Event], object]) -> None:
        try:
            work(over)
        except BaseException as error:  # noqa: BLE001  # raised below
            troubles.append(error)

    threads = [Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        over.set()
        for thread in threads:
            thread.join(_TIMEOUT_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not troubles


def repeated(turn: Callable[[], object], every_s: float = 0.0) -> Callable[[Event], None]:
    """Return what does this again and again, for `meanwhile`."""

    def repeat(over: Event) -> None:
        while not over.wait(every_s):
            turn()

    return repeat
