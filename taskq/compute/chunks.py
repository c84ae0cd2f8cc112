"""Chunks of short calls: many calls of a run as one task.

A task costs half a millisecond of processor time, in the client, the server and the agent together.
So calls that take microseconds go by the hundred. The payload of a chunk holds those of its calls,
and its result holds the value of each, or what it raised. Its key ends with the number of its
calls, such as `sha256:...*500`. It is made from the keys of all its calls, so that the same
arguments in the same order find the same chunks.
"""

from __future__ import annotations

import re
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Final, Literal, TypeAlias

from taskq.campaign import bulk
from taskq.campaign.campaign import Campaign
from taskq.campaign.filter_compiler import compiled
from taskq.compute.functions import Arguments, Content, positional
from taskq.compute.tracker import Pauses, Tracker
from taskq.db.access import Queries
from taskq.ingest.sources.records import BadLine
from taskq.model.errors import CampaignPaused, InvalidTask, UsageError
from taskq.model.pauses import sleep
from taskq.model.run_times import ran_s
from taskq.model.seed import STATUSES, Seed
from taskq_agent.handlers.calls import CHUNK, has_large

#: How many calls are a task; "auto" measures the first ones.
ChunkSize: TypeAlias = int | Literal["auto"]

MOST_CALLS: Final = 1_000
#: Characters of the payloads of a chunk, in JSON without spaces; with them, and with those of
#: the chunk, there are half as many more. A payload has 65,536 bytes at most.
_MOST_CHARS: Final = 40_000
#: Calls that "auto" seeds one by one and measures.
MEASURED: Final = 100
#: As many of them are enough.
_ENOUGH: Final = 20
#: Longest wait for the first ends, such as for agents that start.
MEASURE_S: Final = 5.0
#: What the calls of a chunk should take together, in seconds.
CHUNK_S: Final = 0.25

_KEY: Final = re.compile(r"sha256:[0-9a-f]{40}\*([0-9]{1,4})(#[0-9]+)?")


def check_size(size: ChunkSize) -> None:
    """Raise `UsageError` for a size that is neither "auto" nor a number of calls."""
    if size != "auto" and not (type(size) is int and 1 <= size <= MOST_CALLS):
        raise UsageError(
            f'chunksize must be "auto" or a whole number from 1 to {MOST_CALLS}, not {size!r:.80}'
        )


def calls_in(seed: Seed | BadLine | str) -> int:
    """Return how many calls a task has, by its seed or its key."""
    key = seed if isinstance(seed, str) else getattr(seed, "key", None)
    found = _KEY.fullmatch(key or "")
    return int(found[1]) if found else 1


class CallSeeds:
    """Makes the seeds of calls, or of chunks of them, in the order of the arguments.

    Records of files, calls with large arguments and bad lines stay alone. spread: each argument is
    an iterable of the positional arguments.
    """

    def __init__(self, make: Arguments, *, spread: bool) -> None:
        self._make = make
        self._spread = spread
        self._number = -1

    def of(
        self, arguments: Iterable[Any], size: ChunkSize, measured: Callable[[], int]
    ) -> Iterator[Seed | BadLine]:
        """Yield seeds; raise `InvalidTask`, with the argument's number, if one cannot be stored.

        measured: returns the size for "auto"; called once the first `MEASURED` calls are seeded, if
        there are more.
        """
        items = self._counted(arguments)
        try:
            if size == "auto":
                yield from map(self._one, islice(items, MEASURED))
                more = [*islice(items, 1)]
                size = measured() if more else 1
                items = chain(more, items)
            yield from map(self._one, items) if size == 1 else self._chunked(items, size)
        except InvalidTask as error:
            raise InvalidTask(f"argument {self._number}: {error}") from error

    def _counted(self, arguments: Iterable[Any]) -> Iterator[Any]:
        for self._number, item in enumerate(arguments):
            yield item

    def _one(self, item: Any) -> Seed | BadLine:
        return self._make.of_item(item, spread=self._spread)

    def _chunked(self, items: Iterator[Any], size: int) -> Iterator[Seed | BadLine]:
        chunk: list[Content] = []
        chars = 0
        for item in items:
            if isinstance(item, (BadLine, Seed)):
                alone = self._one(item)
            else:
                content = self._make.content(positional(item, spread=self._spread), {})
                if not has_large(content[0]):
                    if len(chunk) == size or chars + len(content[1]) > _MOST_CHARS:
                        yield from self._joined(chunk, self._number)
                        chunk, chars = [], 0
                    chunk.append(content)
                    chars += len(content[1])
                    continue
                alone = self._make.seed(*content)
            yield from self._joined(chunk, self._number)
            chunk, chars = [], 0
            yield alone
        yield from self._joined(chunk, self._number + 1)

    def _joined(self, chunk: list[Content], end: int) -> Iterator[Seed]:
        """Yield the seed of a chunk, or those of its calls if the chunk would break a limit.

        end: the number of the argument after it.
        """
        if len(chunk) > 1:
            payload = {"args": [{CHUNK: [payload for payload, _ in chunk]}]}
            try:
                yield self._make.seed(payload, "\n".join([text for _, text in chunk]), len(chunk))
                return
            except InvalidTask:  # nested too deeply
                pass
        for self._number, content in enumerate(chunk, end - len(chunk)):
            yield self._make.seed(*content)
        self._number = end


def measured_size(database: Queries, campaign: Campaign, tasks: array[int]) -> int:
    """Return how many calls a chunk should have, by the times of the first ones.

    tasks: the first ones. Waits for `MEASURE_S` at most until enough of them have ended. A campaign
    that has chunks keeps their size.
    """
    known = _known_size(database, campaign)
    if known is not None:
        return known
    tracker = Tracker(database, campaign.campaign_id, campaign.path)
    tracker.add(sorted(tasks))
    pauses, deadline = Pauses(), time.monotonic() + MEASURE_S
    took_s: list[float] = []
    try:
        while tracker.pending and len(took_s) < _ENOUGH and time.monotonic() < deadline:
            ends = tracker.look()
            rows = [end.row for end in ends if end.row is not None]
            took_s += [ran_s(row["phases"], row["claimed_at"], row["ended_at"]) for row in rows]
            if took_s and sum(took_s) > CHUNK_S * len(took_s):
                break
            sleep(pauses.next_s(found=bool(ends)))
    except CampaignPaused:  # those who wait for the run hear of it
        return 1
    if not took_s:
        return 1
    # A busy machine interrupts some calls: leave out the slowest quarter.
    usual_s = max(sorted(took_s)[3 * len(took_s) // 4], 1e-6)
    return max(1, min(MOST_CALLS, int(CHUNK_S / usual_s)))


def _known_size(database: Queries, campaign: Campaign) -> int | None:
    """Return the size of the chunks that a campaign has, 1 if it has calls alone; None: unknown."""
    pages = bulk.pages(database, campaign.campaign_id, compiled(None), STATUSES)
    keys = [row["key"] for page in islice(pages, 1) for row in page.rows]
    largest = max(map(calls_in, keys), default=1)
    return None if largest == 1 and len(keys) <= MEASURED else largest
