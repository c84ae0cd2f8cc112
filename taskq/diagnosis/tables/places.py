"""Hosts, sites and their bans: columns, and what is wrong with each in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from taskq.diagnosis.bans import Ban, PlaceKind
from taskq.diagnosis.places import Place
from taskq.diagnosis.sample import SampleSize
from taskq.diagnosis.tables.agents import warnings
from taskq.model.columns import Column, Mark
from taskq.model.words import counted

_MOST_HOSTS: Final = 3

BANS: Final[tuple[Column[Ban], ...]] = (
    Column("name"),
    Column("campaign", lambda ban: ban.path if ban.path != "/" else "all"),
    Column("until", lambda ban: ban.until or "lifted"),
    Column("why", gives_way=True),
    Column("since", lambda ban: ban.banned_at),
    Column("by", lambda ban: ban.login),
)


def marks(place: Place) -> Iterator[Mark]:
    """Yield what is wrong with the agents of a place."""
    for ban in place.bans:
        yield Mark("banned" if ban.path == "/" else f"banned for {ban.path}", ban.why)
    if place.gone and place.ban is None:
        yield Mark(place.gone)
    if place.suspect:
        yield Mark("slowed", place.suspect)
    yield from warnings(place.warnings)
    if place.apart:
        named = ", ".join(place.apart[:_MOST_HOSTS])
        yield Mark(f"{counted(len(place.apart), 'bad host')}: {named}")
    for what in ("slowed", "draining", "silent"):
        if number := getattr(place, what):
            yield Mark(f"{number:,} {what}")


def columns(kind: PlaceKind) -> list[Column[Place]]:
    """Return the columns of hosts or sites."""
    others = "on other hosts" if kind == "host" else "at other sites"
    site: list[Column[Place]] = [Column("site", yields=2)] if kind == "host" else []
    return [
        Column(kind, lambda place: place.name),
        *site,
        Column("agents", kind="count", yields=3),
        Column("slots", kind="count", yields=4),
        Column(
            "state",
            lambda place: "; ".join(map(str, marks(place))),
            gives_way=True,
            is_bad=lambda place: any(marks(place)),
        ),
        Column("attempts", kind="count", means="In a sample of the latest."),
        Column(
            "failed",
            lambda place: place.bad / place.attempts if place.attempts else None,
            "share",
            "Share of the attempts that failed, were lost or were refused there.",
            is_bad=lambda place: place.is_failing,
        ),
        Column(
            "elsewhere",
            lambda place: None if place.failing is None else place.failing.elsewhere.share,
            "share",
            f"The same share {others} in the same campaigns.",
            yields=5,
        ),
        Column("run", lambda place: place.run_s, "seconds", "Typical run time."),
        Column(
            "times",
            lambda place: None if place.slow is None else place.slow.times,
            "times",
            f"How many times as long as {others}.",
            is_bad=lambda place: place.is_slow,
        ),
        Column(
            "use",
            lambda place: place.use,
            "share",
            "Share of the slots' time in which a payload ran.",
        ),
    ]


def about_sample(size: SampleSize) -> str:
    """Return a sentence that says how many attempts a comparison has seen."""
    text = f"Seen: {size}"
    if size.is_cut:
        text += ", in the order of their tasks; few come from places that do little, such as a "
        text += "slowed or banned host"
    return f"{text}."
