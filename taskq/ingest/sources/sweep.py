"""Parameter sweeps: every combination of the values of some parameters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

from taskq.ingest.sources.records import (
    BadLine,
    Record,
    Source,
    excerpt,
    given_value,
    number_or_text,
)
from taskq.model.errors import UsageError
from taskq.model.seed import MAX_KEY_CHARS, MAX_PAYLOAD_BYTES, Seed, derived_key

MAX_COMBINATIONS: Final = 1_000_000_000
MAX_PARAMETERS: Final = 32

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_NUMBER_WIDTH: Final = 32  # no number is longer as JSON


def sweep(specs: Sequence[str]) -> Sweep:
    """Return the sweep over the product of parameters, each given as `NAME=VALUES`.

    Values are a list (`temperature=280,300,320`, `target=CDK2,EGFR`; text in double quotes stays
    text) or a range with both ends (`seed=1:1000`, `ph=6:8:0.5`), which is computed exactly,
    without the drift of repeated addition. Raise `UsageError` for anything else, for a number in a
    list that would not be stored as it was written, for a range that runs backwards or is empty, a
    value or parameter that comes twice, and more than a billion combinations.
    """
    axes = [_axis(spec) for spec in specs]
    if not 1 <= len(axes) <= MAX_PARAMETERS:
        raise UsageError(f"a sweep over {len(axes)} parameters; 1 to {MAX_PARAMETERS} are allowed")
    names = [axis.name for axis in axes]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"the sweep names the parameter {name!r} twice")
    return Sweep(axes)


class Sweep(Source):
    """All combinations of parameters; the last parameter changes fastest.

    A combination's key reads `seed=1,temperature=280`. Iterating again starts again.
    """

    def __init__(self, axes: Sequence[_Axis]) -> None:
        self.name = "sweep"
        self.parameters = tuple(axis.name for axis in axes)
        self.combinations = math.prod(len(axis.values) for axis in axes)
        if self.combinations > MAX_COMBINATIONS:
            raise UsageError(
                f"the sweep has {self.combinations:,} combinations; "
                f"{MAX_COMBINATIONS:,} at most are allowed"
            )
        self.total = self.combinations
        self.width = sum(axis.width for axis in axes)  # the most bytes it adds to a payload
        if self.width > MAX_PAYLOAD_BYTES:
            raise UsageError(
                f"the sweep's values make payloads of more than {MAX_PAYLOAD_BYTES} bytes"
            )
        self._axes = axes

    def __iter__(self) -> Iterator[Seed]:
        for values in _product(self._axes):
            payload = dict(zip(self.parameters, values, strict=True))
            key = ",".join(f"{name}={value}" for name, value in payload.items())
            yield Seed(payload, key if len(key) <= MAX_KEY_CHARS else derived_key(payload))


class Crossed(Source):
    """Each record of a source with each combination of a sweep, record by record.

    The payload has the fields of the record and the parameters; the key is the record's, a
    semicolon and the combination's. Reading it raises `UsageError` for a record that has a field
    with the name of a parameter. Closing it closes the source.
    """

    def __init__(self, source: Source, over: Sweep) -> None:
        self.name = source.name
        self.total_bytes = source.total_bytes
        self.total = None if source.total is None else source.total * over.combinations
        self.checked_first = source.checked_first
        self.notes = source.notes
        self._source = source
        self._sweep = over
        self._before = 0  # bytes of the records before this one
        self._done = 0  # combinations with this one

    @property
    def bytes_read(self) -> int:
        """Bytes read of the source, the current record in part as far as it is combined."""
        of_record = self._source.bytes_read - self._before
        return self._before + of_record * self._done // self._sweep.combinations

    @property
    def line(self) -> int:
        """The line of the source."""
        return self._source.line

    def close(self) -> None:
        """Close the source."""
        self._source.close()

    def __iter__(self) -> Iterator[Record]:
        for record in self._source:
            if isinstance(record, BadLine):
                yield record
            else:
                yield from self._combined(record)
            self._before, self._done = self._source.bytes_read, 0

    def _combined(self, record: Seed) -> Iterator[Record]:
        for name in self._sweep.parameters:
            if name in record.payload:
                raise UsageError(
                    f"{self.name}: the sweep's parameter {name!r} is also a field of the records"
                )
        record_key, text, _ = record.encoded()
        size = len(text.encode()) + self._sweep.width
        if size > MAX_PAYLOAD_BYTES:
            reason = f"payload of {size} bytes with the sweep's; {MAX_PAYLOAD_BYTES} at most"
            yield BadLine(self.line, reason, excerpt(text))
            return
        for combination in self._sweep:
            self._done += 1
            payload = {**record.payload, **combination.payload}
            key = f"{record_key};{combination.key}"
            if len(key) > MAX_KEY_CHARS:
                key = derived_key(payload)
            yield Seed(payload, key, record.priority)


class _Grid:
    """Evenly spaced numbers, as fractions of whole numbers: each is rounded only once."""

    def __init__(self, first: Fraction, step: Fraction, count: int) -> None:
        self._divisor = math.lcm(first.denominator, step.denominator)
        self._first = int(first * self._divisor)
        self._step = int(step * self._divisor)
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[float]:
        end = self._first + self._count * self._step
        return (value / self._divisor for value in range(self._first, end, self._step))


_Values: TypeAlias = tuple[int | float | str, ...] | range | _Grid


@dataclass(frozen=True, slots=True)
class _Axis:
    name: str
    values: _Values

    @property
    def width(self) -> int:
        """Return the most bytes of `"name": value, ` in JSON."""
        longest = _NUMBER_WIDTH
        if isinstance(self.values, tuple):
            longest = max(len(json.dumps(value)) for value in self.values)
        return len(self.name) + 6 + longest


def _product(axes: Sequence[_Axis]) -> Iterator[tuple[Any, ...]]:
    # itertools.product would hold all values of each axis in memory.
    if not axes:
        yield ()
        return
    for value in axes[0].values:
        for others in _product(axes[1:]):
            yield (value, *others)


def _axis(spec: str) -> _Axis:
    name, equals, text = spec.partition("=")
    name = name.strip()
    if not equals or not _NAME.fullmatch(name):
        raise UsageError(
            f"sweep {spec!r} must read NAME=VALUES, such as seed=1:1000 or ph=6.5,7,7.5"
        )
    return _Axis(name, _range(spec, text) if ":" in text else _list(spec, text))


def _list(spec: str, text: str) -> tuple[int | float | str, ...]:
    values = tuple(given_value(item.strip()) for item in text.split(","))
    seen: set[str] = set()  # as keys have them, in which text and numbers look alike
    for value in values:
        if value == "":
            raise UsageError(f"sweep {spec!r} has an empty value")
        if str(value) in seen:
            raise UsageError(f"sweep {spec!r} has the value {value!r} twice")
        seen.add(str(value))
        if isinstance(value, str):
            if ";" in value or not value.isprintable():
                raise UsageError(f"sweep {spec!r}: {value!r} has a character that keys cannot have")
            Seed({"value": value}, key="value").encoded()
    return values


def _range(spec: str, text: str) -> range | _Grid:
    parts = [part.strip() for part in text.split(":")]
    numbers = [number_or_text(part) for part in parts]
    if len(parts) not in (2, 3) or any(isinstance(number, str) for number in numbers):
        raise UsageError(
            f"sweep {spec!r}: a range is FIRST:LAST or FIRST:LAST:STEP, such as 0:1:0.25"
        )
    whole = all(isinstance(number, int) for number in numbers)
    if text.count(":") == 1 and not whole:
        raise UsageError(
            f"sweep {spec!r}: a range of decimal numbers needs a step, such as 0:1:0.25"
        )
    first, last, step = (Fraction(part) for part in (*parts, "1")[:3])
    if step <= 0 or first > last:
        raise UsageError(f"sweep {spec!r}: a range runs upwards, with a step above zero")
    count = (last - first) // step + 1
    if count > MAX_COMBINATIONS:
        raise UsageError(f"sweep {spec!r} has {count:,} values; {MAX_COMBINATIONS:,} at most")
    if whole:
        return range(int(first), int(last) + 1, int(step))
    if step <= math.ulp(float(max(abs(first), abs(last)))):
        raise UsageError(f"sweep {spec!r}: the step is too small to tell its values apart")
    return _Grid(first, step, count)
