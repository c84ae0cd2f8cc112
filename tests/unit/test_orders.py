"""Whether the order of tasks explains that results or run times moved at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from taskq.diagnosis.orders import order

#: Payloads of a file, by their place in it; drawn anew for each seed.
Draw = Callable[[random.Random, int], dict[str, Any]]

NEAR = 24


def molecules(draw: random.Random, _: int) -> dict[str, Any]:
    """Return a molecule, by its SMILES."""
    return {"smiles": "CNO"[draw.randrange(3)] * draw.randint(5, 60)}


FILES: dict[str, Draw] = {
    "index": lambda _, place: {"n": place},
    "molecules": molecules,
    "molecules with an index": lambda draw, place: molecules(draw, place) | {"id": f"m{place}"},
    "sizes sorted": lambda _, place: {"atoms": 10 + place / 100},
    "lengths sorted": lambda draw, place: {
        "text": "C" * (10 + place // 40 + draw.randrange(8)),
        "n": place,
    },
    "seeds": lambda draw, _: {"seed": draw.getrandbits(60), "kind": draw.choice("ab")},
    "one setting": lambda _, place: {"n": place, "method": "B3LYP", "charge": 0},
    "sweep": lambda _, place: {"a": place % 3, "b": place // 3 % 5, "on": place % 2 == 0},
    "no object": lambda _, place: {} if place % 2 else {"n": [place]},
}


def sides(draw: random.Random, file: Draw) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the payloads on both sides of a place of a file."""
    first = draw.randrange(50, 5_000)
    both = [file(draw, first + place) for place in range(2 * NEAR)]
    return both[:NEAR], both[NEAR:]


@pytest.mark.parametrize("file", FILES)
def test_file_without_groups_explains_no_time(file: str) -> None:
    """Drawn places of drawn files: what moved there did for another reason, and explain says so."""
    said = [order(*sides(random.Random(seed), FILES[file])) for seed in range(200)]
    assert not any(said)


@pytest.mark.parametrize(
    ("before", "behind", "says"),
    [
        ({"set": "actives"}, {"set": "decoys"}, 'set was "actives" and is "decoys"'),
        ({"temperature": 300}, {"temperature": 310.5}, "temperature was 300 and is 310.5"),
        ({"solvent": None}, {"solvent": "water"}, ""),
        ({"wet": False}, {"wet": True}, "wet was false and is true"),
        ({"text": "C" * 200}, {"text": "C" * 20_000}, "the payload was "),
    ],
)
def test_border_of_groups_explains_it(
    before: dict[str, Any], behind: dict[str, Any], says: str
) -> None:
    """Whatever else stands in the payloads."""
    draw = random.Random(1)
    groups = [
        [molecules(draw, place) | {"n": place} | its for place in range(first, first + NEAR)]
        for first, its in ((100, before), (100 + NEAR, behind))
    ]
    assert order(*groups).startswith(says) if says else not order(*groups)


def test_tasks_that_do_not_follow_each_other_differ_by_groups_only() -> None:
    """An index differs in any case."""
    draw = random.Random(2)
    before = [FILES["index"](draw, place) for place in range(NEAR)]
    behind = [FILES["index"](draw, place) for place in range(5_000, 5_000 + NEAR)]
    assert order(before, behind)
    assert not order(before, behind, are_near=False)
    of_groups = [
        [it | {"set": name} for it in some]
        for name, some in zip("ab", (before, behind), strict=True)
    ]
    assert order(*of_groups, are_near=False) == 'set was "a" and is "b"'


def test_few_or_monstrous_values_explain_nothing() -> None:
    """Of a page that lacks tasks; and numbers that no float holds."""
    assert not order([{"set": "a"}] * 11, [{"set": "b"}] * 40)
    large = [[{"n": 10**400 + draw} for draw in range(first, first + NEAR)] for first in (0, 9_000)]
    assert not order(*large)
    assert not order([None, 7, "text"] * NEAR, [[1], 7, "text"] * NEAR)
