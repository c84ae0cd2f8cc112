"""Parameter sweeps, alone and crossed with a file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskq.ingest.sources import BadLine, Crossed, Source, SourceOptions, open_source, sweep
from taskq.model.errors import UsageError
from taskq.model.seed import Seed, derived_key

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,7}", fullmatch=True)


def values_of(spec: str) -> list[Any]:
    return [seed.payload["x"] for seed in sweep([f"x={spec}"])]


@pytest.fixture
def source_of(tmp_path: Path) -> Iterator[Callable[..., Source]]:
    """Return a function that opens a source with the given text and options."""
    with ExitStack() as opened:

        def source(data: str, **options: Any) -> Source:
            path = tmp_path / f"file.{'csv' if ',' in data else 'smi'}"
            path.write_text(data)
            return opened.enter_context(open_source(path, options=SourceOptions(**options)))

        yield source


def test_last_parameter_changes_fastest() -> None:
    """The order of combinations is that of nested loops; keys tell them apart."""
    source = sweep(["seed=1:2", "temperature=280,300.5", "kind=a, b"])
    seeds = list(source)
    assert [seed.key for seed in seeds[:3]] == [
        "seed=1,temperature=280,kind=a",
        "seed=1,temperature=280,kind=b",
        "seed=1,temperature=300.5,kind=a",
    ]
    assert seeds[-1] == Seed(
        {"seed": 2, "temperature": 300.5, "kind": "b"}, "seed=2,temperature=300.5,kind=b"
    )
    assert source.total == len(seeds) == len({seed.key for seed in seeds}) == 8


@given(
    st.dictionaries(
        NAMES,
        st.lists(st.integers(-99, 99), min_size=1, max_size=4, unique=True),
        min_size=1,
        max_size=4,
    )
)
def test_sweep_is_the_product_of_its_lists(axes: dict[str, list[int]]) -> None:
    """Every combination comes once, in the order of itertools.product, again on each reading."""
    source = sweep([f"{name}={','.join(map(str, values))}" for name, values in axes.items()])
    expected = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    for _ in range(2):
        assert [seed.payload for seed in source] == expected
    assert source.total == len(expected)


def test_ranges_include_both_ends() -> None:
    """Whole ends and steps give whole numbers; a step need not meet the end."""
    assert values_of("1:4") == [1, 2, 3, 4]
    assert values_of("-1:5:3") == [-1, 2, 5]
    assert values_of("1:6:3") == [1, 4]
    assert values_of("7:7") == [7]
    assert values_of(" 1 : 2 ") == [1, 2]


def test_decimal_steps_do_not_drift() -> None:
    """Each value is the float nearest to the exact one, the last end included."""
    assert values_of("0:1:0.1") == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    values = values_of("0.1:10000:0.1")
    assert len(values) == 100_000
    assert values[-1] == 10_000.0
    assert repr(values[69_999]) == "7000.0"
    assert all(type(value) is float for value in values_of("1:3:0.5"))


@given(
    st.decimals(-1000, 1000, places=3),
    st.decimals(0, 10, places=3),
    st.decimals("0.001", 1, places=3),
)
def test_range_is_the_exact_grid(first: Any, width: Any, step: Any) -> None:
    """The values are those of exact arithmetic, rounded once, and none is beyond the end."""
    last = first + width
    values = values_of(f"{first}:{last}:{step}")
    count = int((Fraction(last) - Fraction(first)) / Fraction(step)) + 1
    assert values == [float(Fraction(first) + i * Fraction(step)) for i in range(count)]
    assert len(set(values)) == count


def test_values_that_are_no_plain_numbers_stay_text() -> None:
    """Receptors by their PDB codes are not taken for powers of ten."""
    assert values_of("1E10,4lde,007,8") == ["1E10", "4lde", "007", 8]
    assert values_of('"1.10","8",8.5, 2.0') == ["1.10", "8", 8.5, 2.0]


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ([], "0 parameters"),
        (["seed"], "NAME=VALUES"),
        (["=1"], "NAME=VALUES"),
        (["1x=1"], "NAME=VALUES"),
        (["a b=1"], "NAME=VALUES"),
        (["x="], "an empty value"),
        (["x=1,,2"], "an empty value"),
        (["x=1,2,1"], "the value 1 twice"),
        (['x="1",1'], "the value 1 twice"),
        (["x=2,1.10"], "1.10 would be stored as 1.1: write 1.1 if it is a number, or '\"1.10\"'"),
        (["x=1e-4"], "write 0.0001 if it is a number"),
        (["x=0.1000000000000000055"], "would be stored as 0.1"),
        (["x=a;b"], "'a;b' has a character"),
        (["x=a\x00"], "has a character"),
        (["x=1", "x=2"], "the parameter 'x' twice"),
        (["x=1:"], "FIRST:LAST"),
        (["x=a:b"], "FIRST:LAST"),
        (["x=1:2:3:4"], "FIRST:LAST"),
        (["x=1:3,7"], "FIRST:LAST"),
        (["x=5:1"], "runs upwards"),
        (["x=1:5:0"], "a step above zero"),
        (["x=5:1:-1"], "a step above zero"),
        (["x=0.5:2"], "needs a step"),
        (["x=1:2000000000"], "2,000,000,000 values"),
        (["x=1:100000", "y=1:100000"], "10,000,000,000 combinations"),
        (["x=999999999999999:999999999999999.1:0.01"], "too small"),
        ([f"x{i}=1" for i in range(33)], "33 parameters"),
        (["x=" + "a" * 70_000], "payload of"),
        ([f"x{i}=" + "a" * 5_000 for i in range(20)], "payloads of more than"),
    ],
)
def test_sweep_without_sense_is_refused(specs: list[str], reason: str) -> None:
    """A spec is checked before any task is made, and named."""
    with pytest.raises(UsageError) as caught:
        sweep(specs)
    assert reason in str(caught.value)


def test_huge_sweep_is_not_held_in_memory() -> None:
    """A billion combinations cost nothing until they are read."""
    source = sweep(["x=1:1000000000"])
    assert source.total == 1_000_000_000
    assert [seed.payload["x"] for seed in itertools.islice(source, 3)] == [1, 2, 3]


def test_long_combination_is_keyed_by_a_digest() -> None:
    """Keys keep their limit whatever the values are."""
    long = "a" * 300
    (seed,) = sweep([f"x={long}"])
    assert seed == Seed({"x": long}, derived_key({"x": long}))


def test_cross_takes_each_record_with_each_combination(source_of: Callable[..., Source]) -> None:
    """Docking: each ligand with each seed, keyed by both. The progress counts combinations."""
    with Crossed(source_of("CCO one\nCCN\n"), sweep(["seed=101:102"])) as source:
        seen, records = [], []
        for record in source:
            records.append(record)
            seen.append(source.bytes_read)
        assert records == [
            Seed({"smiles": "CCO", "name": "one", "seed": 101}, "one;seed=101"),
            Seed({"smiles": "CCO", "name": "one", "seed": 102}, "one;seed=102"),
            Seed({"smiles": "CCN", "seed": 101}, "CCN;seed=101"),
            Seed({"smiles": "CCN", "seed": 102}, "CCN;seed=102"),
        ]
        assert source.bytes_read == source.total_bytes == 12
        assert seen == sorted(seen)
        assert (seen[0], seen[-1]) == (4, 12)
        assert source.line == 2
        assert source.total is None


def test_cross_of_two_sweeps_knows_its_total() -> None:
    """A sweep is a source like any other."""
    crossed = Crossed(sweep(["a=1:3"]), sweep(["b=1:2"]))
    assert crossed.total == len(list(crossed)) == 6


def test_cross_keeps_priority_and_derives_keys(source_of: Callable[..., Source]) -> None:
    """Records without a key differ by their payload, and long keys by a digest."""
    source = source_of("smiles,rank\nCCO,3\n", priority="rank")
    (seed,) = Crossed(source, sweep(["seed=1"]))
    payload = {"smiles": "CCO", "rank": 3}
    assert seed == Seed({**payload, "seed": 1}, f"{derived_key(payload)};seed=1", 3)
    (long,) = Crossed(source_of("C" * 250), sweep(["seed=1"]))
    assert isinstance(long, Seed)
    assert long.key == derived_key(long.payload)


def test_cross_passes_bad_lines_once(source_of: Callable[..., Source]) -> None:
    """A line that is bad, or too large with the sweep's values, is reported once."""
    data = "C" * 65_480 + "\nCCO one\n\0\n"
    large, line, two, nul = Crossed(source_of(data), sweep([f"x={'a' * 90},b"]))
    assert isinstance(large, BadLine)
    assert large.number == 1
    assert "with the sweep's" in large.reason
    assert isinstance(line, Seed)
    assert isinstance(two, Seed)
    assert isinstance(nul, BadLine)
    assert nul.number == 3


def test_parameter_that_is_also_a_field_is_refused(source_of: Callable[..., Source]) -> None:
    """Neither value would win silently."""
    source = Crossed(source_of("smiles,seed\nCCO,3\n"), sweep(["seed=1:2"]))
    with pytest.raises(UsageError, match="'seed' is also a field"):
        list(source)
