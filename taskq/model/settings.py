"""Settings: fields of a dataclass, each declared once with all that there is to say about it.

From the declarations come the checks, the keys of files of campaigns and pilots, the options of the
command line with their help, what `show` prints, and the tables of docs/campaign-file.md and
docs/fleet.md.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, Final

from taskq.model.errors import InvalidCampaign
from taskq.model.words import duration
from taskq_agent.units import size_in_bytes, time_s

#: The longest time that a setting may be, in seconds.
YEAR_S: Final = 31_536_000
#: The default of a setting that must be given.
REQUIRED: Final = object()

_SIZES: Final = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
_TIMES: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True)
class ValueKind:
    """A kind of settings. noun: what a value is, for people.

    metavar, form: of an option, and what it must be; parse: reads it, ValueError if it cannot.
    written: a value as the option takes it. shown: a value for people.
    """

    noun: str
    metavar: str = "TEXT"
    form: str = ""
    parse: Callable[[str], Any] = str
    written: Callable[[Any], str] = str
    shown: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting. table: its table in campaign files. text: what it means, in Markdown.

    low, high: bounds; above, below: bounds that do not belong to the range. choices: all values.
    optional: None is a value, and means "none". check: takes the name and a value, and returns the
    value to keep; raises `InvalidCampaign`. kept: a tuple as campaign files have it.
    option, metavar: on the command line, if name and kind do not say them. drivers: the drivers of
    pilots that have it; empty for all. members: the values are keys of their table in files, and
    this stands for them in texts.
    """

    kind: ValueKind
    text: str
    table: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    check: Callable[[str, object], Any] | None = None
    kept: Callable[[Any], Any] = list
    option: str = ""
    metavar: str = ""
    drivers: tuple[str, ...] = ()
    members: str = ""
    name: str = ""
    default: Any = REQUIRED

    @property
    def key(self) -> str:
        """The key in campaign files, such as `retry.max_attempts`."""
        name = self.members or self.name
        return f"{self.table}.{name}" if self.table else name

    @property
    def flag(self) -> str:
        """The option on the command line, such as `--time-limit` for `time_limit_s`."""
        return self.option or f"--{self.name.removesuffix('_s').replace('_', '-')}"

    @property
    def placeholder(self) -> str:
        """The placeholder for the option's value in the help."""
        return self.metavar or self.kind.metavar

    @property
    def range(self) -> str:
        """The values that it may have, for people, such as `from 1 to 1,000`; may be empty."""
        low, high, above, below = (
            None if bound is None else _bound(self.kind, bound)
            for bound in (self.low, self.high, self.above, self.below)
        )
        if low is not None:
            return f"from {low} to {high}" if high else f"from {low}"
        if above is not None:
            return f"above {above}" + (f" and below {below}" if below else f", at most {high}")
        return ""

    @property
    def values(self) -> str:
        """What a value is, for people, such as `a whole number from 1 to 1,000`."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        return f"{self.kind.noun} {self.range}".rstrip()

    @property
    def plain(self) -> str:
        """The text without marks of Markdown."""
        return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", self.text).replace("`", "")

    def checked(self, value: Any) -> Any:
        """Return the value to keep for one that is given; raise `InvalidCampaign`."""
        if self.check is not None:
            return self.check(self.key, value)
        if value is None and self.optional:
            return None
        if self._is_right(value):
            return float(value) if self.kind in (NUMBER, TIME) else value
        raise InvalidCampaign(f"{self.key} must be {self.values}, not {value!r:.80}")

    def _is_right(self, value: Any) -> bool:
        if self.kind is FLAG:
            return type(value) is bool
        if self.choices:
            return value in self.choices
        if type(value) is not int and (type(value) is not float or self.kind in (WHOLE, SIZE)):
            return False
        low, high = (-math.inf if self.low is None else self.low), self.high or math.inf
        above, below = (-math.inf if self.above is None else self.above), self.below or math.inf
        return low <= value <= high and above < value < below

    def parsed(self, text: str) -> Any:
        """Return the value of an option's text; raise ValueError if it has another form."""
        return None if self.optional and text == "none" else self.kind.parse(text)

    def shown(self, value: Any) -> str:
        """Return a value for people: `none`, `1 min 30 s`, `500`."""
        if value in (None, (), {}):
            return "none"
        return " ".join(value) if isinstance(value, tuple) else self.kind.shown(value)

    def as_json(self, value: Any) -> Any:
        """Return a value as campaign files have it."""
        return self.kept(value) if isinstance(value, tuple) else value


def setting(kind: ValueKind, text: str, default: Any = REQUIRED, **about: Any) -> Any:
    """Return the field of a dataclass that is a setting; about: fields of `Setting`."""
    declared = Setting(kind, text, default=default, **about)
    if default == {}:
        return dataclasses.field(default_factory=dict, metadata={"setting": declared})
    usual = MISSING if default is REQUIRED else default
    return dataclasses.field(default=usual, metadata={"setting": declared})


def settings(of: type) -> Mapping[str, Setting]:
    """Return the settings of a dataclass by name, in the order of declaration."""
    return {
        field.name: dataclasses.replace(field.metadata["setting"], name=field.name)
        for field in dataclasses.fields(of)
        if "setting" in field.metadata
    }


def keep_checked(of: Any) -> None:
    """Check the settings of a new object, and set each to the value to keep."""
    for name, declared in settings(type(of)).items():
        object.__setattr__(of, name, declared.checked(getattr(of, name)))


def described(of: type) -> str:
    """Return the settings of a dataclass as a section of its docstring, one a line."""
    return "\n    Attributes:" + "".join(
        f"\n        {name}: {declared.plain[0].upper()}{declared.plain[1:]}"
        f"{f'; {declared.values}' if declared.choices or declared.range else ''}."
        for name, declared in settings(of).items()
    )


def size_text(size: int) -> str:
    """Return a size as an option takes it: `4G`, or bytes if there is no shorter text."""
    return next((f"{size // of}{unit}" for of, unit in _SIZES if size % of == 0), str(size))


def _time_text(seconds: float) -> str:
    return next(
        (f"{seconds / of:.0f}{unit}" for of, unit in _TIMES if seconds % of == 0), f"{seconds:g}s"
    )


def _bound(kind: ValueKind, value: float) -> str:
    return size_text(int(value)) if kind is SIZE else f"{value:,}"


TEXT: Final = ValueKind("text")
TEXTS: Final = ValueKind("a list of texts")
TABLE: Final = ValueKind("a table of texts")
#: Values with names, each as its option takes it, `NAME=VALUE`.
NAMED: Final = ValueKind("amounts by name")
FLAG: Final = ValueKind("true or false", shown=lambda on: "yes" if on else "no")
CHOICE: Final = ValueKind("text")
WHOLE: Final = ValueKind("a whole number", "N", "a whole number", int, shown="{:,}".format)
NUMBER: Final = ValueKind("a number", "N", "a number", float, "{:g}".format, "{:g}".format)
SIZE: Final = ValueKind(
    "a whole number of bytes",
    "SIZE",
    "a size, such as 20M",
    size_in_bytes,
    written=size_text,
    shown="{:,} bytes".format,
)
TIME: Final = ValueKind(
    "a number of seconds",
    "TIME",
    "a time, such as 90s, 30m or 2h",
    time_s,
    written=_time_text,
    shown=duration,
)
