"""How large a pilot's jobs are if they are to have what tasks need. Pure.

Tasks say what a start of them needs: cores and memory of its slot, devices and named resources of
its node. A job has so much for each of its slots. Slots share a device if a start needs a part.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from taskq.model.requirements import missing, resources_text
from taskq.pilots.planner import Waiting
from taskq.pilots.settings import MAX_CORES, PilotSettings
from taskq_agent.named_resources import MAX_AMOUNT, MAX_RESOURCES
from taskq_agent.resources import offered_as

_MEBI: Final = 1 << 20
_GIBI: Final = 1 << 30
_NEED: Final = re.compile(r"(resource\.)?([a-z0-9_]+)>=([0-9]+(?:\.[0-9]+)?)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What a start needs. retried: the memory of a task that has run out of it; 0: nothing said."""

    cores: int = 1
    memory: int = 0
    retried: int = 0
    gpus: Fraction = Fraction(0)
    named: Mapping[str, int] = field(default_factory=dict)


def needs_of(campaign: Waiting) -> Needs:
    """Return what a start of a campaign needs, by what it requires and has learnt."""
    found: dict[tuple[bool, str], Fraction] = {}
    for tag in filter(None, map(_NEED.fullmatch, campaign.requires)):
        key = tag[1] is not None, tag[2]
        found[key] = max(found.get(key, Fraction(0)), Fraction(tag[3]))
    said = math.ceil(found.get((False, "mem"), 0) * _GIBI)
    return Needs(
        cores=math.ceil(found.get((False, "cores"), 1)) or 1,
        memory=max(said, campaign.memory or 0),
        retried=campaign.retry_memory or 0,
        gpus=found.get((False, "gpus"), Fraction(0)),
        named={name: int(amount) for (is_named, name), amount in found.items() if is_named},
    )


def sized(settings: PilotSettings, needs: Needs) -> PilotSettings:
    """Return settings of jobs whose slots each have room for a start; the given ones at least.

    Without `slots`, as many as the cores are enough for.
    """
    slots = settings.slots or max(1, settings.cores // needs.cores)
    amounts = settings.named_resources
    for name, amount in needs.named.items():
        amounts[name] = max(amounts.get(name, 0), slots * amount)
    return replace(
        settings,
        slots=slots if settings.slots or needs.cores > 1 else None,
        cores=max(settings.cores, slots * needs.cores),
        memory=_memory(settings, slots, needs),
        gpus=_gpus(settings, slots, needs.gpus),
        resources=tuple(f"{name}={amount}" for name, amount in sorted(amounts.items())),
    )


def chosen(
    settings: PilotSettings, campaigns: Sequence[Waiting]
) -> tuple[PilotSettings, Waiting | None]:
    """Return settings of jobs for the first campaign that they can be made to suit, and that.

    campaigns: those with most claimable tasks first.
    """
    for campaign in campaigns:
        if campaign.claimable and campaign.time_suits:
            made = sized(settings, needs_of(campaign))
            if is_possible(made) and not missing(campaign.requires, made.all_offers):
                return made, campaign
    return settings, None


def is_possible(settings: PilotSettings) -> bool:
    """Return whether jobs may be so large at all."""
    amounts = settings.named_resources
    return (
        settings.cores <= MAX_CORES
        and len(amounts) <= MAX_RESOURCES
        and max(amounts.values(), default=0) <= MAX_AMOUNT
    )


def size_text(settings: PilotSettings) -> str:
    """Return what a job has, for people."""
    parts = [
        resources_text(settings.cores, (), None),
        "" if settings.memory is None else f"memory {settings.memory}",
        "" if settings.gpus is None else f"GPUs {settings.gpus}",
        resources_text(None, (), None, named=settings.named_resources),
    ]
    return "; ".join(filter(None, parts))


def _memory(settings: PilotSettings, slots: int, needs: Needs) -> str | None:
    """Return the memory of a job: a share for each start, and room for one that is tried again."""
    least = settings.memory_bytes or 0
    wanted = max(slots * offered_as(needs.memory), needs.retried)
    if wanted <= least or (settings.memory is not None and not least):
        return settings.memory
    size = math.ceil(wanted / _MEBI)
    return f"{size}M" if size % 1024 else f"{size // 1024}G"


def _gpus(settings: PilotSettings, slots: int, each: Fraction) -> str | None:
    """Return the GPUs of a job: whole ones, also where several starts share one."""
    if not each:
        return settings.gpus
    devices = math.ceil(Fraction(slots, math.floor(1 / each))) if each < 1 else slots * each
    kind, colon, _ = (settings.gpus or "").rpartition(":")
    return f"{kind}{colon}{max(math.ceil(devices), settings.gpu_count)}"
