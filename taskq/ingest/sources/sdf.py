"""SDF files: molecules as connection tables with data fields, a `$$$$` line after each.

The format is that of BIOVIA's "CTfile Formats": three header lines, the first with the name,
a connection table up to `M  END`, then the fields: a line `> <NAME>`, the lines of the value, an
empty line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from taskq.ingest.sources.lines import MAX_LINE_BYTES, LineReader
from taskq.ingest.sources.records import (
    BadLine,
    Record,
    SourceOptions,
    excerpt,
    numbered,
    seed_from,
)
from taskq.model.errors import InvalidTask
from taskq.model.seed import MAX_KEY_CHARS, derived_key

#: The line before a value: its name goes to the last `>`, as it may have such itself; or it has the
#: number of a field, as MACCS-II wrote it.
_FIELD: Final = re.compile(r">[^<]*<(?P<name>.*)>|>\s*(?P<number>DT[0-9]+)\b")
#: One that surely is none of a value's own lines.
_PLAIN_FIELD: Final = re.compile(r">\s*(<.+>|DT[0-9]+)\s*(\(.*\)\s*)?")
_END: Final = "M  END"
_LAST: Final = "$$$$"

#: Called with the place of a line in its molecule, from 0, and a text.
_Tell = Callable[[int, str], None]


def read(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per molecule: `{"molblock": ..., "name": ..., "fields": {...}}`.

    The key is the name, or a digest of the payload if the name is empty, too long, or that of the
    molecule before, as with conformers. Values of fields are text. A molecule is bad if it contains
    a bad line, has no `M  END`, or more than one; the last one needs no `$$$$`.
    """
    last_name = ""
    for block in _blocks(lines):
        if block.flaw is not None:
            yield block.flaw
            continue
        try:
            payload = molecule(block.lines, block.ended_at, _teller(lines, block.start))
            name = payload["name"]
            named = name and name != last_name and len(name) <= MAX_KEY_CHARS
            last_name = name
            key = name if named else derived_key(payload)
            yield seed_from(payload, payload["fields"], options, key)
        except InvalidTask as error:
            yield BadLine(block.start, str(error), excerpt("\n".join(block.lines[:4])))


def _teller(lines: LineReader, start: int) -> _Tell:
    return lambda place, text: lines.notes.add(start + place, text)


class _Block:
    """The lines of one molecule, without its `$$$$`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.lines: list[str] = []
        self.flaw: BadLine | None = None
        self.ended_at: int | None = None  # the place of M  END
        self._glued = 0  # the place of the first line behind it that begins with $$$$
        self._size = 0

    def add(self, line: str) -> None:
        self._size += len(line) + 1
        if self._size > MAX_LINE_BYTES:
            self.spoil(self.start, f"the molecule is longer than {MAX_LINE_BYTES} characters")
        if self.flaw is None:
            self.lines.append(line)

    def glue(self) -> None:
        """Note that the line to be added begins with `$$$$`, but is not that alone.

        It belongs to a value, unless another molecule follows.
        """
        if self.ended_at is not None and not self._glued:
            self._glued = len(self.lines)

    def end(self, number: int) -> _Block | None:
        """Note that the line to be added is an `M  END`.

        If that is the second, spoil the molecule. Return one that ended before it, if files were
        joined without a line end between them.
        """
        if self.ended_at is None or self.flaw is not None:
            self.ended_at = len(self.lines)
            return None
        if not self._glued:
            self.spoil(
                self.start,
                f"the molecule has a second '{_END}' in line {number}: is a {_LAST} missing?",
            )
            return None
        whole = _Block(self.start)
        whole.lines, whole.ended_at = self.lines[: self._glued], self.ended_at
        del self.lines[: self._glued]
        self.start += self._glued
        # The first line is that of $$$$, so the molecule's others would shift.
        self.spoil(
            self.start,
            f"the line is not {_LAST} alone, and a molecule follows: "
            "were files joined without a line end?",
        )
        return whole

    def spoil(self, number: int, reason: str) -> None:
        """Make the molecule a bad line; the first flaw counts."""
        if self.flaw is None:
            self.flaw = BadLine(number, reason, excerpt("\n".join(self.lines[:4])))
            self.lines.clear()

    def is_blank(self) -> bool:
        """Return whether it has nothing."""
        return self.flaw is None and not any(map(str.strip, self.lines))


def _blocks(lines: LineReader) -> Iterator[_Block]:
    block = _Block(1)
    for line in lines:
        if isinstance(line, BadLine):
            block.spoil(line.number, f"in the molecule from line {block.start}: {line.reason}")
            continue
        first = line[:1]
        if first == "$" and line.startswith(_LAST):
            if line.rstrip() == _LAST:
                if block.start == 1 and block.is_blank():
                    lines.notes.add(lines.number, f"a {_LAST} without a molecule before it")
                else:
                    yield block
                block = _Block(lines.number + 1)
                continue
            block.glue()
        elif first == "M" and line.startswith(_END):
            whole = block.end(lines.number)
            if whole is not None:
                yield whole
        block.add(line)
    if block.is_blank():
        return
    if block.flaw is None:
        _end_without_last(lines, block)
    yield block


def _end_without_last(lines: LineReader, block: _Block) -> None:
    """Accept the last molecule without its `$$$$`, or spoil it if it was cut."""
    reason = f"the file ends within the molecule that starts here: no {_LAST}"
    last = next(line for line in reversed(block.lines) if line.strip())
    if block.ended_at is None or lines.damage is not None or (not lines.ended and last[0] == ">"):
        block.spoil(block.start, reason)
        return
    lines.notes.add(
        block.start,
        f"the last molecule, from here on, has no {_LAST}: it is read up to the end of the file; "
        "was that cut?",
    )


def molecule(lines: list[str], end: int | None = None, tell: _Tell | None = None) -> dict[str, Any]:
    """Return a molecule as a payload; raise `InvalidTask` if it is not valid.

    end: the place of its `M  END`; None if that is to be found.
    """
    if end is None:
        end = next((i for i, line in enumerate(lines) if line.startswith(_END)), None)
    if end is None:
        raise InvalidTask(f"the molecule has no '{_END}' line")
    return {
        "molblock": "\n".join(lines[: end + 1]) + "\n",
        "name": lines[0].strip(),
        "fields": _fields(lines, end + 1, tell or (lambda *_: None)),
    }


def _fields(lines: list[str], begin: int, tell: _Tell) -> dict[str, str]:
    """Return the data fields; keep an empty line in a value, which the format forbids.

    begin: the place of the first line of fields.
    """
    found: list[tuple[str, list[str], int]] = []
    value: list[str] | None = None
    after_gap = True
    for place in range(begin, len(lines)):
        line = lines[place]
        header = _FIELD.match(line) if line[:1] == ">" else None
        if header is not None and after_gap:
            value = []
            name = header["number"] if header["name"] is None else header["name"]
            found.append((name, value, place))
        elif value is not None:
            if header is not None and _PLAIN_FIELD.fullmatch(line):
                tell(
                    place,
                    f"no empty line is before {excerpt(line)!r}: it is read as a part of the "
                    f"value of the field {excerpt(found[-1][0])!r}",
                )
            value.append(line)
        elif line.strip():
            raise InvalidTask(f"after '{_END}', {excerpt(line)!r} is neither a field nor {_LAST}")
        after_gap = not line.strip()
    fields: dict[str, str] = {}
    names = {name for name, _, _ in found}
    for count, (name, values, place) in enumerate(found, 1):
        kept = name
        if not name.strip():
            kept = numbered(f"field{count}", names)
            tell(place, f"a field has no name: it is called {kept!r}")
        elif name in fields:
            kept = numbered(name, names | fields.keys())
            tell(place, f"the field {excerpt(name)!r} is repeated: its further value is {kept!r}")
        fields[kept] = "\n".join(values).rstrip()
    return fields
