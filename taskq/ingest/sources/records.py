"""Common parts of all readers: records, options, the base class of sources, tasks from fields.

A key of several fields consists of their values, joined by commas; commas and backslashes in a
value are escaped by a backslash.
"""

from __future__ import annotations

import codecs
import csv
import logging
import re
from abc import abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from taskq.model.errors import InvalidTask, UsageError
from taskq.model.seed import Seed

EXCERPT_CHARS: Final = 200

MOST_NOTES: Final = 100
"""Notes on one file that are passed on."""

UTF16: Final = ("utf-16", "utf-16-le", "utf-16-be")
"""Encodings without ASCII that are read all the same."""

DELIMITERS: Final = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}

_log: Final = logging.getLogger(__name__)

_NUMBER: Final = re.compile(
    r"""
    -?
    (?: (?P<whole> 0 | [1-9][0-9]{0,14} )
      | (?: 0 | [1-9][0-9]{0,14} ) \.[0-9]{1,20} (?: [eE][+-]?[0-9]{1,2} )?
      | [1-9][0-9]{0,14} [eE]-[0-9]{1,2}
    )
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class BadLine:
    """A piece of a seed file that cannot become a task.

    `number` is the line where it starts, from 1. `text` is its beginning, at most 200 characters,
    with unprintable ones escaped: it is safe to show on a terminal.
    """

    number: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Damage(BadLine):
    """The place of the damage in a compressed file; nothing behind it is read.

    `number` is the line of the damage. `uncertain` are the first and the last of the whole lines
    before it that no checksum covers: some may never have been in the file. None means that all
    are as they were written.
    """

    uncertain: tuple[int, int] | None


Record: TypeAlias = Seed | BadLine


class Notes:
    """What a reader did with a file that its user should know, though it is no error.

    `tell` is called with the number of a line and a text, once for each text. By default it logs a
    warning.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._told: set[str] = set()
        self.tell: Callable[[int, str], None] = self._warn

    def add(self, number: int, text: str) -> None:
        """Pass a note on, unless it was passed on before, for another line."""
        if text in self._told or len(self._told) > MOST_NOTES:
            return
        self._told.add(text)
        last = len(self._told) > MOST_NOTES
        self.tell(number, "there is more to note, which is left out" if last else text)

    def _warn(self, number: int, text: str) -> None:
        _log.warning("%s:%d: %s", self._name, number, text)


def numbered(name: str, taken: Container[str]) -> str:
    """Return the name, or else NAME_2, NAME_3 and so on: the first that is not taken."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


@cache
def key_fields(key: str | None) -> tuple[str, ...]:
    """Return the fields that form a key: names separated by commas, quoted as in CSV.

    Empty if key is None. Raise `UsageError` if a name is empty or comes twice.
    """
    if key is None:
        return ()
    try:
        (names,) = csv.reader([key], strict=True)
    except (csv.Error, ValueError):
        raise UsageError(
            f"key {key!r} must name fields, such as a,b; a name with a comma or quote is quoted "
            'as "a,b", with its quotes doubled'
        ) from None
    if "" in names:
        raise UsageError(f"key {key!r} names an empty field")
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"key {key!r} names {name!r} twice")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """How to read a seed file, if its format leaves a choice.

    key        column or field whose value becomes the task's key, or several, such as a,b
               (CSV, TSV, JSON Lines, SDF); they stay in the payload; see `seed_from`
    priority   the same for the priority, a whole number
    types      what becomes of values of a CSV or TSV file that look like numbers: a number
               where none of the column would change by it ("guess"), a number ("number";
               see `number_or_text`), or text ("text")
    delimiter  one character or its name: tab, space, comma, semicolon, pipe (SMILES, CSV); None
               means the one in the header (CSV), or white space (SMILES)
    header     whether the file starts with a line of titles (SMILES, CSV, TSV); None means yes
               in a table, and in a SMILES file if the line contains "smiles" and no molecule
    smiles_field  number of the field of a SMILES file that holds the SMILES, from 1
    encoding   that of the text; None means UTF-8, or UTF-16 with its byte order mark
    """

    key: str | None = None
    priority: str | None = None
    types: Literal["guess", "number", "text"] = "guess"
    delimiter: str | None = None
    header: bool | None = None
    smiles_field: int | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        for name in ("key", "priority", "delimiter", "encoding"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise UsageError(f"{name} must be text, not {value!r}")
        key_fields(self.key)
        if self.header not in (None, True, False):
            raise UsageError(f"header must be true or false, not {self.header!r}")
        if self.types not in ("guess", "number", "text"):
            raise UsageError(f"types must be 'guess', 'number' or 'text', not {self.types!r}")
        field = self.smiles_field
        if field is not None and (type(field) is not int or field < 1):
            raise UsageError(f"smiles_field must be a number from 1, not {field!r:.80}")
        if self.encoding is not None:
            check_encoding(self.encoding)
        separator = self.separator("\t")
        if len(separator) != 1 or separator in '"\r\n\0':
            raise UsageError(
                f"delimiter {self.delimiter!r} must be one character or one of "
                + ", ".join(DELIMITERS)
            )

    def separator(self, default: str) -> str:
        """Return the delimiter as a character, or the default if none was chosen."""
        if self.delimiter is None:
            return default
        return DELIMITERS.get(self.delimiter, self.delimiter)


def check_encoding(name: str) -> None:
    """Raise `UsageError` if text in an encoding cannot be read by lines."""
    plain = [rb"\n\u0041", b"xn--bcher-kva", b"a\n", bytes(range(32, 127))]
    try:
        if codecs.lookup(name).name in UTF16 or all(
            text.decode(name) == text.decode() for text in plain
        ):
            return
    except (LookupError, ValueError):  # of which UnicodeError is one
        pass
    raise UsageError(
        f"encoding {name!r:.80} cannot be read: name utf-8, utf-16, cp1252, latin-1, mac-roman, "
        "gb18030 or another one that Python knows and that contains ASCII"
    )


DEFAULT_OPTIONS: Final = SourceOptions()


class Source(AbstractContextManager["Source"]):
    """A stream of records that is read once and in bounded memory.

    `total_bytes` and `total`: the sizes known beforehand, of the file on disk and in records; None
    if unknown. `checked_first`: whether it is read through before it yields its first record.
    `notes`: what it has to tell of its files; None if nothing.
    """

    name: str
    notes: Notes | None = None
    total_bytes: int | None = None
    total: int | None = None
    checked_first: bool = False

    @property
    def bytes_read(self) -> int:
        """Return how many of `total_bytes` were read so far."""
        return 0

    @property
    def line(self) -> int:
        """Return the number of the last line read; 0 if there are no lines."""
        return 0

    @abstractmethod
    def __iter__(self) -> Iterator[Record]: ...

    def close(self) -> None:
        """Close the files of the source."""

    def __exit__(self, *_: object) -> None:
        self.close()


def checked(seed: Seed, number: int, text: str | bytes) -> Record:
    """Return the seed, or a bad line if the seed breaks a limit of tasks."""
    try:
        return seed.checked()
    except InvalidTask as error:
        return BadLine(number, str(error), excerpt(text))


def excerpt(text: str | bytes) -> str:
    """Return the beginning of a text in printable characters, without the end of its line."""
    head = text[:EXCERPT_CHARS]
    if isinstance(head, bytes):
        head = head.decode("utf-8", "backslashreplace")
    head = head.rstrip("\r\n")
    if not head.isprintable():
        head = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in head)
    return head[:EXCERPT_CHARS]


def seed_from(
    payload: Mapping[str, Any],
    fields: Mapping[str, Any],
    options: SourceOptions,
    key: str | None = None,
) -> Seed:
    """Return the task of a payload; raise `InvalidTask` if the task is not valid.

    The options name the fields with key and priority; `key` is the key if they name none.
    """
    if options.key is not None:
        key = _key(options.key, fields)
    priority = 0 if options.priority is None else _priority(options.priority, fields)
    return Seed(payload, key, priority).checked()


def _key(key: str, fields: Mapping[str, Any]) -> str:
    names = key_fields(key)
    if len(names) == 1:
        value = _key_part(names[0], fields)
        if not value:
            raise InvalidTask(f"the key field {names[0]!r} is empty")
        return value
    values = [_key_part(name, fields) for name in names]
    if not any(values):
        raise InvalidTask(f"the key fields {' and '.join(map(repr, names))} are all empty")
    # Escaped, so that different values never make the same key.
    return ",".join([value.replace("\\", "\\\\").replace(",", "\\,") for value in values])


def _key_part(name: str, fields: Mapping[str, Any]) -> str:
    value = _field("key", name, fields)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InvalidTask(f"the key field {name!r} must be text or a whole number, not {value!r}")
    return str(value)


def _priority(name: str, fields: Mapping[str, Any]) -> int:
    value = _field("priority", name, fields)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidTask(
            f"the priority field {name!r} must be a whole number, not {value!r}"
        ) from None


def _field(role: str, name: str, fields: Mapping[str, Any]) -> Any:
    if name not in fields:
        raise InvalidTask(f"there is no field {name!r} to take the {role} from")
    return fields[name]


def number_or_text(text: str) -> int | float | str:
    """Return a text as the number that it plainly is, or else the text; ignore white space around.

    Numbers: 8, -3, 0.25, 1.5e6, 1e-4. Text, since a catalogue or a person may have meant a name:
    leading zeros (007), a plus sign, more than 15 digits before the point, nan, inf, and exponents
    without point or minus sign, because 1E10 is an entry of the Protein Data Bank.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return text
    return float(text) if found["whole"] is None else int(text)


def given_value(text: str) -> int | float | str:
    """Return a value of a command line: text in double quotes as it is, else `number_or_text`.

    Raise `UsageError` for a number that would not be stored as it was written: 1.10 may be a name.
    """
    plain = text.strip()
    if len(plain) > 1 and plain[0] == plain[-1] == '"':
        return plain[1:-1]
    value = number_or_text(text)
    if not isinstance(value, str) and str(value) != plain:
        raise UsageError(
            f"{plain} would be stored as {value}: write {value} if it is a number, or "
            f"'\"{plain}\"', with all its quotes, if it is text"
        )
    return value


def same_number_or_text(text: str) -> int | float | str:
    """Return a text as a number if the number's own text is this text, or else the text.

    So different texts never become one value: 1.10 and 1e5 are no numbers.
    """
    value = number_or_text(text)
    return value if str(value) == text else text
