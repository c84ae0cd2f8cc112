"""Reasons, which make up an explanation, and the words that they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from typing_extensions import Self

from taskq.model.words import beginning, counted, instant

_NAMED: Final = 3
_SHOWN_CHARS: Final = 200
#: Costs from which on they are shown as whole numbers.
_WHOLE: Final = 9.95


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why tasks do not run, or not faster.

    code: the kind of reason, for programs. tasks: how many tasks it concerns. blocks: whether these
    do not run before something changes. lost: about how many attempts or tasks a broken part has
    cost; 0 if nothing is broken. commands: commands that change it or show more, ready to type.
    figures: the numbers in the text, by name. since: since when it is so; None if that is unknown.
    cost: about how many core-hours an hour are lost by it; None if that is unknown. maintenance:
    the id of the maintenance window in which it is expected; None if it is in none. because: hosts
    or sites that cause it, which have reasons of their own.
    """

    code: str
    text: str
    tasks: int = 0
    blocks: bool = False
    lost: int = 0
    commands: Sequence[str] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    since: datetime | None = field(default=None, kw_only=True)
    cost: float | None = field(default=None, kw_only=True)
    maintenance: int | None = field(default=None, kw_only=True)
    because: Sequence[str] = field(default=(), kw_only=True)

    @property
    def full_text(self) -> str:
        """The text, with since when and at what cost, unless it has that."""
        when = instant(self.since)
        return " ".join(
            [
                self.text,
                *([f"Since {when}."] if when and when not in self.text else []),
                *([f"It costs {cost_text(self.cost)}."] if self.cost else []),
            ]
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a campaign, or one of its tasks, does not run, or not faster.

    key: of the task; None for the campaign and all below it. headline: its state, in a sentence.
    waiting, delayed, working: tasks of the campaign; leased_ahead: working ones that no agent has
    yet. reasons: those that block most tasks first, then broken parts that cost most; before each
    the one that causes it.
    """

    path: str
    key: str | None
    headline: str
    waiting: int
    delayed: int
    working: int
    leased_ahead: int
    reasons: Sequence[Reason]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What a reason is at. campaign: the one that has all of it. site, host: empty if none."""

    campaign: str
    site: str = ""
    host: str = ""

    @classmethod
    def of(cls, path: str, reason: Reason) -> Self:
        """Return the place of a reason of a campaign, by the names among its figures."""

        def named(*names: str) -> str:
            found = (reason.figures.get(name) for name in names)
            return next((it for it in found if isinstance(it, str)), "")

        return cls(named("campaign", "closed") or path, named("site", "sites"), named("host"))

    def __str__(self) -> str:
        """In words: the campaign, the site and the host."""
        site = f"site {self.site}" if self.site else ""
        host = f"host {self.host}" if self.host else ""
        return " ".join(filter(None, (self.campaign, site, host)))


def causes_first(path: str, reasons: Sequence[Reason]) -> list[Reason]:
    """Return the reasons of a campaign, each moved to just before the first that it causes."""
    found: list[Reason] = []
    for reason in reasons:
        causes = [] if not reason.because else [it for it in reasons if _is_at(path, it, reason)]
        found += [it for it in [*causes, reason] if it not in found]
    return found


def _is_at(path: str, cause: Reason, reason: Reason) -> bool:
    """Return whether a reason is about a place that causes another, and not caused itself."""
    at = Whereabouts.of(path, cause)
    return not cause.because and (at.host or at.site) in reason.because


def cost_text(cost: float) -> str:
    """Return a cost in words, such as `about 40 core-hours an hour`, in two digits below 10."""
    rounded = f"{cost:,.0f}" if cost >= _WHOLE else f"{cost:.1f}"
    return f"about {rounded} core-hours an hour"


def known_sum(costs: Iterable[float | None]) -> float | None:
    """Return the sum of costs that are known; None if none is."""
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known else None


def verb(number: int, singular: str, plural: str) -> str:
    """Return the form of a verb that goes with a number."""
    return singular if number == 1 else plural


def waits(number: int) -> str:
    """Return `1 task waits` or `1,234 tasks wait`."""
    return f"{counted(number, 'task')} {verb(number, 'waits', 'wait')}"


def them(number: int) -> str:
    """Return the pronoun for so many tasks."""
    return verb(number, "it", "them")


def some(names: Iterable[str], number: int | None = None, *, most: int = _NAMED) -> str:
    """Return the first `most` names, and how many more there are. number: of all names."""
    known = list(names)
    more = (len(known) if number is None else number) - len(known[:most])
    return ", ".join(known[:most]) + (f" and {more:,} more" if more > 0 else "")


def brief(text: str | None) -> str:
    """Return the beginning of a text that came from a node."""
    text = " ".join((text or "").split())
    return beginning(text, _SHOWN_CHARS)


def failure(error_class: str | None, error: str | None) -> str:
    """Return class and message of an error."""
    return brief(": ".join(filter(None, (error_class, error)))) or "without a message"
