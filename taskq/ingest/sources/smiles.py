"""SMILES files: a molecule per line, usually followed by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from taskq.ingest.sources.lines import MARK, MARK_WITHIN, LineReader
from taskq.ingest.sources.records import BadLine, Record, SourceOptions, checked, excerpt
from taskq.model.seed import MAX_KEY_CHARS, Seed, derived_key

# JSON takes at most six bytes for a character, so a payload from a line this short keeps every
# limit of tasks. Checking each seed instead would take more than half of the reading time.
_SURELY_SHORT: Final = 8_000
#: Characters of SMILES outside of brackets (opensmiles.org, and dative bonds): atoms, bonds,
#: branches, ring closures, the dot and the arrow of reactions.
_ALLOWED: Final = "BCNOPSFIbcnops*0123456789()=#$:/\\~.<>-%"
_BAD: Final = re.compile(f"[^{re.escape(_ALLOWED)}]")
_BRACKETS: Final = re.compile(r"\[[^\[\]]{1,100}\]")
_LONG_LABEL: Final = re.compile(r"%\d\d|%\(\d+\)")
_LABELS: Final = "1234567890"


def read(lines: LineReader, options: SourceOptions) -> Iterator[Record]:
    """Yield a task per line: `{"smiles": ..., "name": ...}`, with its name as its key.

    Without a delimiter, the name follows the first white space, up to a tab or the end of the line;
    with a delimiter, it is the second field. The payload of a molecule without a name has no
    `name`, and its key is the SMILES. If the name or SMILES is too long for a key, the key is a
    digest of the payload. Empty lines and those that start with `#` are skipped.
    """
    delimiter = None if options.delimiter is None else options.separator("\t")
    first = True
    for line in lines:
        if isinstance(line, BadLine):
            yield line
            continue
        if not line or line[0] == "#" or line.isspace():
            continue
        if delimiter is None:
            smiles, *rest = line.split(None, 1)
            name = rest[0].partition("\t")[0].strip() if rest else ""
        else:
            smiles, *rest = line.split(delimiter, 2)
            smiles, name = smiles.strip(), rest[0].strip() if rest else ""
        if first:
            first = False
            if options.header or (options.header is None and "smiles" in smiles.lower()):
                continue
        yield _record(lines.number, line, smiles, name)


def _record(number: int, line: str, smiles: str, name: str) -> Record:
    if not smiles:
        return BadLine(number, "the line has no SMILES before its first delimiter", excerpt(line))
    if "\r" in line:
        reason = "a carriage return within the line: convert the file's line ends to LF"
        return BadLine(number, reason, excerpt(line))
    if not line.isascii() and MARK in line:
        return BadLine(number, f"{MARK_WITHIN} the line", excerpt(line))
    if (wrong := _wrong(smiles)) is not None:
        return BadLine(number, f"{smiles!r:.60} is not SMILES: {wrong}", excerpt(line))
    payload = {"smiles": smiles, "name": name} if name else {"smiles": smiles}
    key = name or smiles
    if len(key) > MAX_KEY_CHARS:
        key = derived_key(payload)
    seed = Seed(payload, key)
    if len(line) > _SURELY_SHORT or "\\u" in line or not key.isprintable():
        return checked(seed, number, line)
    return seed


def _wrong(smiles: str) -> str | None:
    """Return a fault of the text; None if there is none. Chemistry (valences, rings) is unchecked.

    Each step takes time in proportion to the text, for any text.
    """
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
