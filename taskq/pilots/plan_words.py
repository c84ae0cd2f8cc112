"""Plan of a pilot as people get it: what was decided, in sentences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from taskq.model.requirements import missing, offering_option, tag_words
from taskq.model.words import HOUR_S, MINUTE_S, counted
from taskq.pilots.planner import Decision, Misfit, PlanReason, Waiting, WantedJobs
from taskq.pilots.settings import PilotSettings
from taskq.pilots.sizing import size_text

#: Tags for what each slot of an agent has, and the option that each comes from.
RESOURCE_TAGS: Final = {"cores": "--cores", "mem": "--memory", "gpus": "--gpus"}

_SHOWN_CAMPAIGNS: Final = 3
_SHOWN_REASONS: Final = 3


@dataclass(slots=True)
class Plan:
    """How many jobs to submit and to cancel, sentences that say why, and what the jobs have."""

    submit: int = 0
    cancel: int = 0
    why: list[str] = field(default_factory=list)
    settings: PilotSettings | None = None


def plan_of(decision: Decision, sized_for: str | None = None) -> Plan:
    """Return a decision as people get it. sized_for: the campaign that needs jobs so large."""
    settings, why = decision.settings, [*_sentences(decision)]
    if sized_for is not None:
        why.insert(0, f"Jobs have what {sized_for} needs: {size_text(settings)}.")
    return Plan(decision.submit, decision.cancel, why, settings)


def _sentences(decision: Decision) -> Iterator[str]:
    fleet, state = decision.fleet, decision.state
    yield from _about_work(decision)
    yield _about_fleet(decision)
    if fleet.waits:
        yield _sentence(f"The queue says: {_most_common(fleet.waits)}")
    if fleet.missing:
        yield (
            f"{counted(fleet.missing, 'job')} not in the batch system's latest answer: still "
            "counted, until several answers in a row lack them."
        )
    if state.trouble is not None and not (state.retry_in_s or state.paused_why):
        yield _sentence(f"The last trouble: {state.trouble}")
    if decision.wanted is not None:
        yield from _about_wanted(decision, decision.wanted)
    yield _outcome(decision)


def _about_work(decision: Decision) -> Iterator[str]:
    work = decision.work
    in_work = f"{work.working:,} {'is' if work.working == 1 else 'are'} worked on"
    yield f"{counted(work.waiting, 'task')} waiting for agents like these, {in_work}."
    if work.starts < work.waiting:
        yield f"Many begin together: they fill {counted(work.starts, 'slot')}."
    for campaign, misfit in work.left_out[:_SHOWN_CAMPAIGNS]:
        reason = _about_misfit(decision.settings, campaign, misfit)
        yield f"{counted(campaign.claimable, 'task')} of {campaign.path} not counted: {reason}."
    if len(work.left_out) > _SHOWN_CAMPAIGNS:
        yield f"{len(work.left_out) - _SHOWN_CAMPAIGNS:,} more campaigns are not counted either."


def _about_misfit(settings: PilotSettings, campaign: Waiting, misfit: Misfit) -> str:
    lifetime = _time(settings.lifetime_s)
    if misfit is Misfit.TAGS:
        return _unmet(settings, campaign.requires)
    if misfit is Misfit.TIME_LIMIT:
        limit = _time(campaign.time_limit_s or 0)
        return f"its time limit of {limit} does not fit into a job ({lifetime})"
    return (
        f"its tasks take {_time(campaign.usual_s or 0)} on average, longer than a job ({lifetime})"
    )


def _unmet(settings: PilotSettings, requires: Sequence[str]) -> str:
    """Return why tasks with these requirements are not for the pilot's agents."""
    unmet = missing(requires, settings.all_offers)
    if named := [tag for tag in unmet if tag.startswith("resource.")]:
        given = " ".join(" ".join(offering_option(tag, settings.slot_count)) for tag in named)
        lacks = " and ".join(map(tag_words, named))
        return f"it requires {lacks}, which these agents do not have; give {given}, or --as-needed"
    names = {re.split("[>=]", tag)[0] for tag in unmet}
    if not names <= RESOURCE_TAGS.keys():
        return f"it requires {' '.join(unmet)}, which --offer does not name"
    whole = replace(settings, slots=1)
    fits = not missing(unmet, whole.all_offers)
    more = " and ".join(option for name, option in RESOURCE_TAGS.items() if name in names)
    what = "fewer --slots" if fits else f"more {more}, or say by --offer what they have"
    share = " ".join(tag for tag in settings.all_offers if tag.partition("=")[0] in RESOURCE_TAGS)
    return f"it requires {' '.join(unmet)}, and a slot of these agents has {share}; give {what}"


def _about_fleet(decision: Decision) -> str:
    settings, fleet = decision.settings, decision.fleet
    parts = {
        "serving": len(fleet.serving) + fleet.settling,
        "starting": fleet.starting,
        "queued": len(fleet.queued),
        "being submitted": fleet.submitting,
    }
    said = ", ".join(f"{number:,} {what}" for what, number in parts.items() if number)
    slots = "" if settings.slots is None else f" with {counted(settings.slots, 'slot')}"
    nodes = "" if settings.nodes == 1 else f"{settings.nodes:,} nodes, each of "
    jobs = f"jobs of {nodes}{counted(settings.cores, 'core')}{slots}"
    return (
        f"Live {jobs}: {said or 'none'}, of {settings.most:,} "
        f"at most; all agents like these have {counted(fleet.slots, 'slot')}."
    )


def _about_wanted(decision: Decision, wanted: WantedJobs) -> Iterator[str]:
    settings, work = decision.settings, decision.work
    if work.known:
        of_them = "They" if work.known == work.starts else f"{work.known:,} of them"
        yield f"{of_them} take {_time(work.spent_s / work.known)} each, as the latest did."
    if unknown := work.starts - work.known:
        assumed_s = wanted.worth_it.assumed_s
        learnt = f"at least {_time(assumed_s)} is assumed" if assumed_s else "a few jobs find out"
        yield f"How long {counted(unknown, 'task')} take is not known yet: {learnt}."
    if ending := wanted.at_hand.ending:
        yield f"{counted(ending, 'job')} at work will end before another task could."
    if rest := wanted.filled.rest:
        nodes = math.ceil(rest / settings.slot_count)
        filled = f"{nodes:,} of the {settings.nodes:,} nodes of a job"
        then = "left to other agents" if wanted.filled.left else "the others will idle"
        yield f"The last {counted(rest, 'task')} would fill {filled}: {then}."
    each = f"{_time(wanted.worth_it.each_s)} of work"
    share = "core" if settings.slot_count == settings.cores else "slot"
    yield (
        f"In addition to the {math.floor(wanted.at_hand.jobs):,} at work, "
        f"{counted(wanted.jobs, 'job')} wanted: {wanted.filled.jobs:,} could be filled, and "
        f"{wanted.worth_it.jobs:,} in all would each have {each} a {share}."
    )


def _outcome(decision: Decision) -> str:  # one sentence for each reason
    settings, fleet, state = decision.settings, decision.fleet, decision.state
    reason = decision.reason
    if reason is PlanReason.REMOVED:
        return "It is being removed: nothing is submitted, what is queued is cancelled."
    if reason is PlanReason.PAUSED:
        why = f": {state.paused_why}" if state.paused_why else ""
        return _sentence(f"It is paused, so nothing is submitted{why}")
    if reason is PlanReason.TO_COME:
        return (
            f"Nothing is submitted: {counted(decision.to_come, 'task')} unfinished, but not to be "
            "claimed now (delayed, paused, or at a limit of running tasks)."
        )
    if reason is PlanReason.NOTHING_LEFT:
        return f"Nothing is left for {counted(decision.cancel, 'queued job')}: cancelled."
    if reason is PlanReason.NOTHING_WAITS:
        return "Nothing is submitted; agents leave when they have been idle."
    if reason is PlanReason.FAILED_LATELY:
        failures = "1 failure" if state.failures == 1 else f"{state.failures} failures in a row"
        trouble = f"; the last: {state.trouble}" if state.trouble else ""
        text = f"Nothing is submitted for {_time(state.retry_in_s)}, after {failures}{trouble}"
        return _sentence(text)
    if decision.submit:
        limit = "" if reason is PlanReason.NEEDED else f" ({reason.value})"
        return f"So {counted(decision.submit, 'job')} submitted now{limit}."
    if reason is PlanReason.ENOUGH:
        return f"So none is submitted: {counted(fleet.coming, 'job')} to come."
    if reason is PlanReason.MAX_JOBS:
        return f"So none is submitted: there may be {settings.most:,} at most (max_jobs)."
    return (
        f"So none is submitted: {fleet.submitting + len(fleet.queued):,} wait in the batch system "
        f"already (backlog {settings.backlog:,}; {fleet.started_lately:,} began within a minute)."
    )


def _most_common(words: Sequence[str]) -> str:
    """Return the words that most jobs share first, with how many jobs have them."""
    shown = Counter(words).most_common(_SHOWN_REASONS)
    return "; ".join(f"{why} ({counted(number, 'job')})" for why, number in shown)


def _sentence(text: str) -> str:
    """End a quoted text with exactly one full stop."""
    return f"{text.rstrip().rstrip('.')}."


def _time(seconds: float) -> str:
    if seconds < MINUTE_S:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"  # noqa: PLR2004  # two digits
    if seconds < HOUR_S:
        return f"{seconds / MINUTE_S:.3g} min"
    return f"{seconds / HOUR_S:.3g} h"
