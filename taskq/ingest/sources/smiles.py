"""SMILES files: a molecule per line, usually followed by its name.

An extension of ChemAxon (CXSMILES), such as `|&1:1,r|` after white space, belongs to the SMILES:
stereo groups, labels and fragments of reactions are parts of the molecule.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from taskq.ingest.sources.lines import MARK, MARK_WITHIN, LineReader
from taskq.ingest.sources.records import (
    DELIMITERS,
    BadLine,
    Record,
    SourceOptions,
    checked,
    excerpt,
)
from taskq.model.errors import InvalidTask
from taskq.model.seed import MAX_KEY_CHARS, Seed, derived_key

# JSON takes at most six bytes for a character, so a payload from a line this short keeps every
# limit of tasks. Checking each seed instead would take more than half of the reading time.
_SURELY_SHORT: Final = 8_000
#: Characters of SMILES outside of brackets (opensmiles.org, and dative bonds): atoms, bonds,
#: branches, ring closures, the dot and the arrow of reactions.
_ALLOWED: Final = "BCNOPSFIbcnops*0123456789()=#$:/\\~.<>-%"
_BAD: Final = re.compile(f"[^{re.escape(_ALLOWED)}]")
#: What an atom begins with, and so a SMILES, but that of a reaction perhaps with its arrow.
_FIRST: Final = "BCNOPSFIbcnops*["
_ATOM: Final = re.compile(r"[A-Za-z*]")
_BRACKETS: Final = re.compile(r"\[[^\[\]]{1,100}\]")
_LONG_LABEL: Final = re.compile(r"%\d\d|%\(\d+\)")
_LABELS: Final = "1234567890"
#: The text after a SMILES: an extension, and what follows white space, or the end.
_EXTENDED: Final = re.compile(r"(\|[^|]*\|)(?:\s+(.*))?\Z", re.DOTALL)
_EXTENSION: Final = re.compile(r"(?<=\s)\|[^|]*\|(?![^\s,;])")
_STRUCTURE: Final = frozenset("=#()123456789")
#: Most fields of a line in which a SMILES is looked for, to propose an option.
_MOST_FIELDS: Final = 20

#: The SMILES of a line, its name, and what follows that.
_Parts: TypeAlias = tuple[str, str, str]

_MORE: Final = (
    "the columns after the name are no part of the tasks; "
    "`--format tsv`, or `csv`, keeps those of a file with titles"
)
_NO_SMILES: Final = "the line has no SMILES before its first delimiter"
_NO_END: Final = "the extension of the SMILES, from | on, has no second |"


def read(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per line: `{"smiles": ..., "name": ...}`, with its name as its key.

    Without a delimiter, the name follows the first white space, up to a tab or the end of the line;
    with a delimiter, it is the second field. If the SMILES are in another field, the name is the
    first. The payload of a molecule without a name has no `name`, and its key is the SMILES. If the
    name or SMILES is too long for a key, the key is a digest of the payload. Empty lines and those
    that start with `#` are skipped.
    """
    split: Callable[[str], _Parts] | None = None
    if options.delimiter is not None or options.smiles_field is not None:
        delimiter = None if options.delimiter is None else options.separator("\t")
        split = _Fields(delimiter, (options.smiles_field or 1) - 1)
    first = True
    for line in lines:
        if isinstance(line, BadLine):
            yield line
            continue
        if not line or line[0] == "#" or line.isspace():
            continue
        if first:
            first = False
            if options.header or (options.header is None and _is_header(line)):
                split = split or _fields_of(line)
                continue
        if split is None and line[0] > " " and "|" not in line:
            smiles, *rest = line.split(None, 1)  # as in `_parts`, for a tenth less of the time
            name, _, more = rest[0].partition("\t") if rest else ("", "", "")
            name = name.strip()
        else:
            try:
                smiles, name, more = (split or _parts)(line)
            except InvalidTask as error:
                yield BadLine(lines.number, str(error), excerpt(line))
                continue
        if more and not more.isspace():
            lines.notes.add(lines.number, _MORE)
        yield _record(lines.number, line, smiles, name)


def _parts(line: str) -> _Parts:
    """Return the parts of a line without a delimiter."""
    smiles, *rest = line.split(None, 1)
    if line[0] <= " " and line.lstrip(" ")[0] == "\t":
        raise InvalidTask(_NO_SMILES)
    if not rest:
        return smiles, "", ""
    behind = rest[0]
    if behind[0] == "|":
        extension = _EXTENDED.match(behind)
        if extension is None:
            raise InvalidTask(_NO_END + _proposal(line))
        smiles = f"{smiles} {extension[1]}"
        behind = extension[2] or ""
    name, _, more = behind.partition("\t")
    return smiles, name.strip(), more


class _Fields:
    """The parts of a line by fields. delimiter: None means a tab if there is one, or white space.

    place: that of the SMILES, from 0; the name is the first of the others.
    """

    def __init__(self, delimiter: str | None, place: int) -> None:
        self._delimiter = delimiter
        self._place = place
        self._name = 1 if place == 0 else 0

    def __call__(self, line: str) -> _Parts:
        fields = _split(line, self._delimiter)
        field = fields[self._place] if self._place < len(fields) else ""
        if not field:
            where = "" if self._place == 0 else f" in field {self._place + 1}"
            raise InvalidTask(f"the line has no SMILES{where}" if where else _NO_SMILES)
        smiles, *extension = field.split(None, 1)
        if extension and extension[0][0] == "|":
            if not _EXTENDED.match(extension[0]):
                raise InvalidTask(_NO_END)
            field = f"{smiles} {extension[0]}"
        name = fields[self._name] if self._name < len(fields) else ""
        return field, name, "".join(fields[max(self._place, self._name) + 1 :])


def _split(line: str, delimiter: str | None) -> list[str]:
    """Return the fields of a line; an extension belongs to the field before it."""
    if delimiter is None and "\t" in line:
        delimiter = "\t"
    found = None if delimiter == "|" else _EXTENSION.search(line)
    if found is None:
        return [field.strip() for field in line.split(delimiter)]
    # A line has no NUL.
    masked = f"{line[: found.start()]}\0{line[found.end() :]}"
    fields = [field.strip() for field in masked.split(delimiter)]
    place = next(i for i, field in enumerate(fields) if "\0" in field)
    if fields[place] == "\0" and place:
        fields[place - 1 : place + 1] = [f"{fields[place - 1]} \0"]
        place -= 1
    fields[place] = fields[place].replace("\0", found[0])
    return fields


def _is_header(line: str) -> bool:
    """Return whether a first line has titles, of which one contains "smiles", and no SMILES."""
    titles = re.split(r"[\s,;|]+", line.strip()) if "smiles" in line.lower() else []
    return bool(titles) and not any(map(_is_surely_smiles, titles))


def _fields_of(header: str) -> _Fields | None:
    """Return where a line of titles says that SMILES and names are; None if in the usual places."""
    delimiter = None
    if len(header.split()) == 1:
        delimiter = next((mark for mark in ",;|" if mark in header), None)
    titles = [title.lower() for title in _split(header, delimiter)]
    place = next((i for i, title in enumerate(titles) if "smiles" in title), 0)
    return None if delimiter is None and place == 0 else _Fields(delimiter, place)


def _record(number: int, line: str, smiles: str, name: str) -> Record:
    if "\r" in line:
        reason = "a carriage return within the line: convert the file's line ends to LF"
        return BadLine(number, reason, excerpt(line))
    if not line.isascii() and MARK in line:
        return BadLine(number, f"{MARK_WITHIN} the line", excerpt(line))
    plain = smiles if smiles[-1] != "|" else smiles.partition(" ")[0]
    if (wrong := _wrong(plain)) is not None:
        reason = f"{plain!r:.60} is not SMILES: {wrong}{_proposal(line)}"
        if number == 1:
            reason += "; `--header` skips a line of titles"
        return BadLine(number, reason, excerpt(line))
    payload = {"smiles": smiles, "name": name} if name else {"smiles": smiles}
    key = name or smiles
    if len(key) > MAX_KEY_CHARS:
        key = derived_key(payload)
    seed = Seed(payload, key)
    if len(line) > _SURELY_SHORT or "\\u" in line or not key.isprintable():
        return checked(seed, number, line)
    return seed


def _proposal(line: str) -> str:
    """Return which option reads a line without SMILES at its beginning, to end a sentence."""
    if line.lstrip().startswith('"'):
        return "; `--format csv` reads quoted fields"
    fields = _split(line, None)
    for place, field in enumerate(fields[1:_MOST_FIELDS], 2):
        if len(field) > 1 and _is_surely_smiles(field):
            return f"; `--smiles-field {place}` reads the SMILES from field {place}"
    for name, mark in DELIMITERS.items():
        if mark in line and _is_surely_smiles(line.split(mark, maxsplit=1)[0].strip()):
            return f"; `--delimiter {name}` reads fields with {mark!r} between them"
    return ""


def is_structure(text: str) -> bool:
    """Return whether a text is a SMILES with a bond, a branch or a ring: no word is."""
    return not _STRUCTURE.isdisjoint(text) and _is_surely_smiles(text)


def _is_surely_smiles(text: str) -> bool:
    return bool(text) and _wrong(text.partition(" ")[0]) is None


def _wrong(smiles: str) -> str | None:
    """Return a fault of the text; None if there is none. Chemistry (valences, rings) is unchecked.

    Each step takes time in proportion to the text, for any text.
    """
    if smiles[0] not in _FIRST and smiles[0] in _ALLOWED:
        if smiles[0] != ">":
            return "it does not begin with an atom"
        if not _ATOM.search(smiles):
            return "it has no atom"
    plain = _BRACKETS.sub(lambda atom: "*" * len(atom[0]), smiles) if "[" in smiles else smiles
    plain = plain.replace("Cl", "C*").replace("Br", "B*")
    if plain.strip(_ALLOWED) and (bad := _BAD.search(plain)):
        at = bad.start()
        return f"{smiles[at : at + 10]!r} at character {at + 1} is not an atom or bond"
    if plain.count("(") != plain.count(")"):
        return "its parentheses are not balanced"
    plain = _LONG_LABEL.sub("", plain) if "%" in plain else plain
    for label in _LABELS:
        if plain.count(label) % 2:
            return f"the ring closure {label} has no partner"
    return None
