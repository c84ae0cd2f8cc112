"""Mol blocks of strangers: checked line by line, and written with data fields as SDF.

The format is that of BIOVIA's "CTfile Formats", in both versions. The check does not ask whether a
molecule makes sense, but an accepted block is one, and ends where it says: no line of the block or
its fields ends a record, or begins a field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from taskq.ingest.sources.sdf import molecule
from taskq.model.errors import InvalidTask, UsageError
from taskq.model.words import as_json, as_text

#: Limit of one molecule with its data fields.
MOST_BYTES: Final = 1 << 20
_COORDINATE: Final = re.compile(r" *[-+]?[0-9]+\.[0-9]+ *")
_SYMBOL: Final = re.compile(r"[A-Za-z*][A-Za-z0-9#*]{0,2}")
_NUMBER: Final = re.compile(r" *[0-9]+ *")
_HEADER_LINES: Final = 4


class NoMolecule(UsageError):
    """A text is not a molecule; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Molecule:
    """A checked mol block, and the data fields behind it."""

    block: str
    fields: Mapping[str, str]

    def titled(self, name: str) -> Molecule:
        """Return it with this name, if it has none and the name fits on a line."""
        title, _, rest = self.block.partition("\n")
        if title.strip() or not _is_plain(name):
            return self
        return Molecule(f"{name}\n{rest}", self.fields)


def checked(text: str) -> Molecule:
    """Return the first molecule of an SDF file or a mol block.

    Raise `NoMolecule` if it is not valid, or has more than 1 MiB.
    """
    first = f"\n{text[:MOST_BYTES]}".replace("\r\n", "\n").partition("\n$$$$")[0][1:]
    if len(first.encode(errors="replace")) >= MOST_BYTES:
        raise NoMolecule(f"it is longer than {MOST_BYTES:,} bytes")
    try:
        found = molecule(first.split("\n"))
    except InvalidTask as error:
        raise NoMolecule(str(error)) from None
    *lines, _, _ = found["molblock"].split("\n")  # M  END, and an empty text
    for line in lines:
        if line.strip(" ") and not _is_plain(line):
            raise NoMolecule(f"its mol block has the line {line!a:.80}")
    _check(lines)
    return Molecule("\n".join([*lines, "M  END", ""]), found["fields"])


def _check(lines: list[str]) -> None:
    counts = lines[_HEADER_LINES - 1].rstrip() if len(lines) > _HEADER_LINES else ""
    table = lines[_HEADER_LINES:]
    if counts.endswith("V3000"):
        good = all(line.startswith("M  V30 ") for line in table)
    elif counts.endswith("V2000"):
        atoms, bonds = _number(counts[:3]), _number(counts[3:6])
        good = (
            atoms > 0 <= bonds
            and atoms + bonds <= len(table)
            and all(map(_is_atom, table[:atoms]))
            and all(_is_bond(line, atoms) for line in table[atoms : atoms + bonds])
        )
    else:
        raise NoMolecule("its fourth line does not end with V2000 or V3000")
    if not good:
        raise NoMolecule("its atoms and bonds do not match its fourth line")


def _is_atom(line: str) -> bool:
    return _SYMBOL.fullmatch(line[31:34].strip()) is not None and all(
        _COORDINATE.fullmatch(line[begin : begin + 10]) for begin in (0, 10, 20)
    )


def _is_bond(line: str, atoms: int) -> bool:
    return all(0 < _number(line[begin : begin + 3]) <= atoms for begin in (0, 3))


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else -1


def as_sdf(records: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield records of an SDF file: the molecule in `molblock`, then the other fields.

    `molblock`: a `Molecule`, or the text of one. Its own data fields come last, unless the record
    has such a name. A value that would end a field, or begin another, is written as JSON text. `_`
    replaces characters that a name cannot have, and is added to names that become equal. Raise
    `NoMolecule` for a text that is not a molecule.
    """
    for record in records:
        given = record.get("molblock")
        found = given if isinstance(given, Molecule) else checked(str(given or ""))
        own = {
            name: value
            for name, value in record.items()
            if name != "molblock" and value is not None
        }
        fields: dict[str, Any] = {}
        for name, value in (own | {**found.fields, **own}).items():
            fields[_name(name, fields)] = value
        parts = (f"> <{name}>\n{_value(value)}\n" for name, value in fields.items())
        yield f"{found.block}{''.join(parts)}$$$$\n".encode()


def _name(name: str, taken: Collection[str]) -> str:
    """Return a valid name for a field that differs from the names taken."""
    kept = "".join(char if char.isprintable() and char not in "<>" else "_" for char in name) or "_"
    while kept in taken:
        kept += "_"
    return kept


def _value(value: object) -> str:
    """Return the lines of a field's value; an empty value has none."""
    text = as_text(value)
    if not text:
        return ""
    if not all(map(_is_plain, text.split("\n"))):
        text = as_json(value)
        text = "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)
    return f"{text}\n"


def _is_plain(line: str) -> bool:
    """Return whether a line is not empty and can be within a record."""
    return line.isprintable() and bool(line.strip()) and not line.startswith((">", "$$$$"))
