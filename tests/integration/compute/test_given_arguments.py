"""What callers give as several values; what iterates over something else is refused."""

from __future__ import annotations

import pytest

from taskq import Client, Seed
from taskq.model.errors import (
    InvalidTask,
    UsageError,
)
from tests.payloads import called


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["text", "mapping", "table", "record"])
def test_map_refuses_what_iterates_over_something_else(queue: Client, name: str, kind: str) -> None:
    """With nothing stored, and what to write; so does what takes records, keys and files."""
    pandas = pytest.importorskip("pandas")
    given = {"text": "CCO", "mapping": {"a": 1}, "record": 7}.get(
        kind, pandas.DataFrame({"a": [1]})
    )
    for call in (queue.map, queue.starmap):
        with pytest.raises(UsageError, match="give"):
            call(called.same, given, name=name)
    campaign = queue.create_campaign(name)
    with pytest.raises(UsageError, match="give"):
        campaign.seed(given)  # type: ignore[arg-type]
    assert campaign.status().total == 0


@pytest.mark.parametrize("chunksize", [1, 2])
def test_starmap_refuses_elements_that_are_no_tuples_of_arguments(
    queue: Client, name: str, chunksize: int
) -> None:
    """A text would be spread into its characters, a mapping into its names."""
    for element in ("ab", {"a": 1, "b": 2}, 7):
        with pytest.raises(InvalidTask, match=r"argument 1: the arguments of a call: .*give"):
            queue.starmap(called.square, [(1, 2), element], name=name, chunksize=chunksize)


def test_one_key_or_file_is_not_taken_for_many(queue: Client, name: str) -> None:
    """Their characters may be keys and files as well."""
    campaign = queue.create_campaign(name)
    campaign.seed([Seed({}, "a"), Seed({}, "b"), Seed({}, "ab")])
    for call in (campaign.cancel, campaign.retry):
        with pytest.raises(UsageError, match="keys are several"):
            call(keys="ab")
    with pytest.raises(UsageError, match="tasks are several"):
        campaign.fetch("files", "ab")
    assert campaign.status().waiting == 3
    with pytest.raises(UsageError, match="inputs are several"):
        queue.map(called.same, [1], name=f"{name}/inputs", inputs="receptor.pdbqt")


def test_iterator_that_was_used_before_is_warned_of(queue: Client, name: str) -> None:
    """Its run has no calls; an empty list is meant."""
    numbers = (n for n in range(2))
    assert len(queue.map(called.same, numbers, name=name)) == 2
    with pytest.warns(UserWarning, match="used before"):
        assert len(queue.map(called.same, numbers, name=f"{name}/again")) == 0
    assert len(queue.map(called.same, [], name=f"{name}/none")) == 0


def test_set_has_no_chunks(queue: Client, name: str) -> None:
    """Their calls would be others in the next process."""
    with pytest.raises(UsageError, match="sorted"):
        queue.map(called.same, {"a", "b"}, name=name, chunksize=2)
    assert len(queue.map(called.same, {"a", "b"}, name=name)) == 2
