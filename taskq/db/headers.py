"""The head of a file in `sql/`: its lines for machines, and what is wrong in them.

`catalogue` says what they mean.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from taskq.model.acts import VERBS

#: The most tasks or attempts in one request to a gateway.
MOST: Final = 20_000
#: Seconds that a statement may take at a gateway.
MOST_S: Final = 30.0

_KEYS: Final = frozenset({"roles", "standby", "gateway", "repeat", "act", "hint", "plan"})
_LINE: Final = re.compile(r"-- ?@(\w*) *(.*)")
_OPTION: Final = re.compile(
    r"(?P<flag>paged|quiet|whole|own|wakes|waits)|up to (?P<most>\d+)|within (?P<timeout_s>\d+) s"
    r"|instead (?P<instead>\w+)"
)


class BadStatement(Exception):
    """A header in `sql/` is wrong; the message names the file and line."""


@dataclass(frozen=True, slots=True)
class Offer:
    """How a gateway offers a statement; see the options above."""

    kind: Literal["manager", "submitter"]
    paged: bool = False
    quiet: bool = False
    whole: bool = False
    own: bool = False
    wakes: bool = False
    waits: bool = False
    most: int = MOST
    timeout_s: float = MOST_S
    instead: str | None = None
    hint: str = "ask for less"


@dataclass
class Header:
    """The lines for machines in a file."""

    file: str
    text: str
    _lines: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number, line in enumerate(head(self.text), 1):
            found = _LINE.fullmatch(line)
            if found is None:
                continue
            key, value = found.groups()
            if key not in _KEYS:
                raise self.wrong(f"@{key} is not known: {', '.join(sorted(_KEYS))}", number)
            if key in self._lines:
                raise self.wrong(f"@{key} is there twice", number)
            self._lines[key] = (number, value)

    def words(self, key: str, known: frozenset[str], *, needed: bool = True) -> frozenset[str]:
        """Return the words of a line; none if it need not be there and is not."""
        if not needed and key not in self._lines:
            return frozenset()
        number, value = self._taken(key, needed=True) or (0, "")
        if not value:
            raise self.wrong(f"@{key} says nothing", number)
        unknown = set(value.split()) - known
        if unknown:
            raise self.wrong(f"@{key} does not know {', '.join(sorted(unknown))}", number)
        return frozenset(value.split())

    def choice(self, key: str, *known: str, needed: bool) -> str | None:
        """Return the word of a line, which must be one of some; None if there is no line."""
        number, value = self._taken(key, needed=needed) or (0, None)
        if value is not None and value not in known:
            raise self.wrong(f"@{key} is {' or '.join(known)}, not {value!r}", number)
        return value

    def offer(self, *, needed: bool) -> Offer | None:
        """Return what the line about gateways says."""
        number, value = self._taken("gateway", needed=needed) or (0, "no")
        if value == "no":
            return None
        kind, *options = value.split(", ")
        settings: dict[str, object] = {}
        for option in options:
            found = _OPTION.fullmatch(option)
            if found is None or found.lastgroup is None:
                raise self.wrong(f"@gateway does not know {option!r}", number)
            word = found[found.lastgroup]
            if found.lastgroup == "flag":
                settings[word] = True
            else:
                settings[found.lastgroup] = int(word) if word.isdecimal() else word
        if kind not in {"manager", "submitter"}:
            raise self.wrong(f"@gateway is manager, submitter or no, not {kind!r}", number)
        if "hint" in self._lines:
            settings["hint"] = self._lines.pop("hint")[1]
        return Offer(kind, **settings)  # type: ignore[arg-type]  # as matched

    def acts(self, *, needed: bool) -> frozenset[str]:
        """Return the verbs of the acts that the statement notes; none if its line says why not."""
        if not needed:
            return frozenset()
        if self._lines.get("act", (0, ""))[1].startswith("no: "):
            del self._lines["act"]
            return frozenset()
        return self.words("act", frozenset(VERBS))

    def has_no_more(self) -> None:
        """Raise `BadStatement` for a line that means nothing for such a statement."""
        for key, (number, _) in self._lines.items():
            raise self.wrong(f"@{key} does not apply to such a statement", number)

    def _taken(self, key: str, *, needed: bool) -> tuple[int, str] | None:
        if not needed:
            return None
        if key not in self._lines:
            raise self.wrong(f"@{key} is missing")
        return self._lines.pop(key)

    def wrong(self, what: str, number: int = 1) -> BadStatement:
        """Return an error about a line of the file."""
        return BadStatement(f"{self.file}, line {number}: {what}")


def head(text: str) -> list[str]:
    """Return the lines of the comment at the head of a file."""
    lines = text.splitlines()
    ends = (at for at, line in enumerate(lines) if not line.startswith("--"))
    return lines[: next(ends, len(lines))]
