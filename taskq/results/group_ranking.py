"""Ranking of groups of results, each by its best: any number of groups, in bounded memory."""

from __future__ import annotations

import hashlib
import heapq
import json
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from itertools import groupby, islice
from typing import IO, Final

from typing_extensions import Self

from taskq.db.access import Queries
from taskq.db.connections import Row
from taskq.files.large_results import Fetching
from taskq.model.seed import NamedCampaign
from taskq.results.ranking import SCAN, Best, dotted, fetched_rows, field_words, rank_of

#: Lines sorted in memory at a time.
RUN_LINES: Final = 200_000

#: Bytes of the digest that stands for a group.
DIGEST: Final = 16


class LineSorter:
    """Takes lines without line breaks, and returns them in order; `close` frees the disk."""

    def __init__(self, run_lines: int = RUN_LINES) -> None:
        self._run_lines = run_lines
        self._lines: list[str] = []
        self._runs: list[IO[str]] = []

    def close(self) -> None:
        """Remove the temporary files."""
        for run in self._runs:
            run.close()

    def add(self, line: str) -> None:
        """Take a line."""
        self._lines.append(f"{line}\n")
        if len(self._lines) < self._run_lines:
            return
        run = tempfile.TemporaryFile("w+", encoding="ascii", prefix="taskq-sort-")  # noqa: SIM115  # until exit
        run.writelines(sorted(self._lines))
        run.seek(0)
        self._runs.append(run)
        self._lines = []

    def sorted(self) -> Iterator[str]:
        """Yield all lines in order, once."""
        for line in heapq.merge(*self._runs, sorted(self._lines)):
            yield line[:-1]


def sort_key(number: Decimal) -> str:
    """Return hexadecimal digits that sort exactly as the numbers do."""
    sign, digits, _ = number.as_tuple()
    whole = bytes(digits).rstrip(b"\0")
    if not whole:
        return "80"
    # The exponent of the first digit, the digits plus 1, and an end that sorts before any digit.
    exponent = (number.adjusted() + 2**31).to_bytes(4, "big")
    body = exponent + bytes(digit + 1 for digit in whole) + b"\0"
    return f"40{bytes(255 - byte for byte in body).hex()}" if sign else f"c0{body.hex()}"


class GroupRanking:
    """Ranks groups by the best result of each; use it as a context manager.

    PostgreSQL scans the results, a bounded part in each statement, and returns value and group of
    the best of each group in the part. groups: the number of groups, known once `best` has begun.
    left_out: number of results without such a value or group.
    """

    def __init__(self, database: Queries, fetching: Fetching, wanted: Best) -> None:
        self.left_out = 0
        self.groups = 0
        self._database = database
        self._fetching = fetching
        self._wanted = wanted
        self._campaigns = 0
        self._by_group = LineSorter()
        self._by_rank = LineSorter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._by_group.close()
        self._by_rank.close()

    def look(self, campaign: NamedCampaign) -> None:
        """Scan the results of a campaign."""
        part, name = field_words(self._wanted.by)
        group_part, group_name = field_words(self._wanted.group or "")
        values = {
            "campaign": campaign.campaign_id,
            "part": part,
            "name": name,
            "ascending": self._wanted.lowest,
            "group_part": group_part,
            "group_name": group_name,
            "inline": "result" in (part, group_part) and not self._fetching.raw,
            "scan": SCAN,
            "recipe": self._wanted.recipe,
        }
        after: int | None = 0
        while after is not None:
            (row,) = self._database.rows("best_of_groups", after=after, **values)
            found = zip(row["tasks"] or (), row["ranks"] or (), row["groups"] or (), strict=True)
            for task, rank, group in found:
                self._note(group, rank, task)
            ranked = row["ranked"] + self._look_at_large(campaign, row)
            self.left_out += row["seen"] - ranked
            after = row["last"]
        self._campaigns += 1

    def best(self) -> Iterator[tuple[int, int]]:
        """Yield the chosen results, best first: the campaign's number from 0, and the task."""
        for _, lines in groupby(self._by_group.sorted(), lambda line: line.partition(" ")[0]):
            self.groups += 1
            self._by_rank.add(next(lines).partition(" ")[2])
        for line in islice(self._by_rank.sorted(), self._wanted.number(self.groups)):
            _, campaign, task = line.split(" ")
            yield int(campaign, 16), int(task, 16)

    def _look_at_large(self, campaign: NamedCampaign, row: Row) -> int:
        """Rank large results, fetched one by one; return how many count."""
        tasks, ranked = row["large"] or [], 0
        groups = dict(zip(tasks, row["large_groups"] or (), strict=True))
        for large in fetched_rows(self._database, self._fetching, campaign, tasks):
            rank = rank_of(dotted(large, self._wanted.by))
            group = groups[large["task_id"]] or _digest(dotted(large, self._wanted.group or ""))
            if rank is not None and group is not None:
                self._note(group, rank, large["task_id"])
                ranked += 1
        return ranked

    def _note(self, group: bytes, rank: Decimal, task: int) -> None:
        key = sort_key(rank if self._wanted.lowest else rank.copy_negate())
        self._by_group.add(f"{group.hex()} {key} {self._campaigns:08x} {task:016x}")


def _digest(value: object) -> bytes | None:
    """Return the digest of a group as PostgreSQL makes it, for text and whole numbers."""
    if value is None:
        return None
    text = json.dumps(value, ensure_ascii=False)
    return hashlib.sha256(text.encode()).digest()[:DIGEST]
