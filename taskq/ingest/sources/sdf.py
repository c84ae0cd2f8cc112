"""SDF files: molecules as connection tables with data fields, a `$$$$` line after each.

The format is that of BIOVIA's "CTfile Formats": three header lines, the first with the name,
a connection table up to `M  END`, then the fields: a line `> <NAME>`, the lines of the value, an
empty line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from taskq.ingest.sources.lines import MAX_LINE_BYTES, LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions, excerpt, seed_from
from taskq.model.errors import InvalidTask
from taskq.model.seed import MAX_KEY_CHARS, derived_key

_FIELD: Final = re.compile(r">.*?<([^<>]+)>")


def read(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per molecule: `{"molblock": ..., "name": ..., "fields": {...}}`.

    The key is the name, or a digest of the payload if the name is empty, too long, or that of the
    molecule before, as with conformers. Values of fields are text. A molecule is bad if it contains
    a bad line, has no `M  END`, or has no `$$$$` because the file was cut.
    """
    last_name = ""
    for block in _blocks(lines):
        if block.flaw is not None:
            yield block.flaw
            continue
        try:
            payload = molecule(block.lines)
            name = payload["name"]
            named = name and name != last_name and len(name) <= MAX_KEY_CHARS
            last_name = name
            key = name if named else derived_key(payload)
            yield seed_from(payload, payload["fields"], options, key)
        except InvalidTask as error:
            yield BadLine(block.start, str(error), excerpt("\n".join(block.lines[:4])))


class _Block:
    """The lines of one molecule, without its `$$$$`."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.lines: list[str] = []
        self.flaw: BadLine | None = None
        self._size = 0

    def add(self, line: str) -> None:
        self._size += len(line) + 1
        if self._size > MAX_LINE_BYTES:
            self.spoil(self.start, f"the molecule is longer than {MAX_LINE_BYTES} characters")
        if self.flaw is None:
            self.lines.append(line)

    def spoil(self, number: int, reason: str) -> None:
        """Make the molecule a bad line; the first flaw counts."""
        if self.flaw is None:
            self.flaw = BadLine(number, reason, excerpt("\n".join(self.lines[:4])))
            self.lines.clear()


def _blocks(lines: LineReader) -> Iterator[_Block]:
    block = _Block(1)
    for line in lines:
        if isinstance(line, BadLine):
            block.spoil(line.number, f"in the molecule from line {block.start}: {line.reason}")
        elif line.startswith("$$$$"):
            yield block
            block = _Block(lines.number + 1)
            if line.rstrip() != "$$$$":
                # It is the first line of the next molecule, whose other lines would shift.
                reason = "the line is not $$$$ alone: were files joined without a line end?"
                block.spoil(lines.number, reason)
        else:
            block.add(line)
    if block.flaw is not None or any(map(str.strip, block.lines)):
        block.spoil(block.start, "the file ends within the molecule that starts here: no $$$$")
        yield block


def molecule(lines: list[str]) -> dict[str, Any]:
    """Return a molecule as a payload; raise `InvalidTask` if it is not valid."""
    end = next((i for i, line in enumerate(lines) if line.startswith("M  END")), None)
    if end is None:
        raise InvalidTask("the molecule has no 'M  END' line")
    return {
        "molblock": "\n".join(lines[: end + 1]) + "\n",
        "name": lines[0].strip(),
        "fields": _fields(lines[end + 1 :]),
    }


def _fields(lines: list[str]) -> dict[str, str]:
    """Return the data fields; keep an empty line in a value, which the format forbids."""
    found: list[tuple[str, list[str]]] = []
    value: list[str] | None = None
    after_gap = True
    for line in lines:
        header = _FIELD.match(line) if after_gap else None
        if header is not None:
            value = []
            found.append((header[1], value))
        elif value is not None:
            value.append(line)
        elif line.strip():
            raise InvalidTask(f"after 'M  END', {excerpt(line)!r} is neither a field nor $$$$")
        after_gap = not line.strip()
    fields: dict[str, str] = {}
    for name, values in found:
        text = "\n".join(values).rstrip()
        if fields.setdefault(name, text) != text:
            raise InvalidTask(f"the field {excerpt(name)!r} occurs twice, with different values")
    return fields
