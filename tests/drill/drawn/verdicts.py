"""What becomes of a planted problem: is it named, does the remedy help, are others accused."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

import psycopg

from taskq.model.errors import TaskqError
from tests.drill.drawn.case import Problem
from tests.drill.drawn.farm import Farm, Pulse
from tests.drill.drawn.forms import CHANCE
from tests.drill.drawn.symptoms import AWAY, FAILS, ODD, SLOW
from tests.drill.stage import Stage

Reason: TypeAlias = dict[str, Any]
Outcome: TypeAlias = Literal["named", "in part", "silent"]

NAMED_S: Final = 60.0
"""Seconds in which a problem must be named."""
_HELPED_S: Final = 60.0
_WINDOW_S: Final = 4.0
_LOOK_S: Final = 2.0
#: A remedy has helped if failures are down to this part of what they were.
_FALLEN: Final = 0.25
#: Reasons that say that something is broken, as opposed to busy.
_ACCUSING: Final = re.compile(
    "fail|slow|banned-|lost|silent|wrong|constant|odd|no-handler|refused|warning|overdue|poison"
    "|unranked|split"
)
_AT_FAULT: Final = re.compile("campaign's fault|tasks' fault")
#: Commands that only show something, or that a drill cannot do.
_LOOKING: Final = re.compile(
    r"taskq (failures|history|logs|tasks|tree|audit|seed|explain|keeper|gateway|troubles|"
    r"(host|site|agent|token|limit|owner) (list|show)|campaign show|db check|agent run|recover)\b"
)
_BANNING: Final = re.compile(r"taskq (host|site) ban\b")
_TERMINATE: Final = re.compile(r"select pg_terminate_backend\((\d+)\)")
_SINCE: Final = re.compile(r"\b(since|until)\b[^.;]*\d{4}-\d\d-\d\dT")


@dataclass
class Finding:
    """What became of a problem. Times in seconds since it struck; None: never.

    answer: the reason that names it best. lacks: what that lacks; helped_s: after the remedy.
    remedy: what was typed.
    """

    cause: str
    form: str
    problem: Problem
    begun: float = 0.0
    named_s: float | None = None
    answer: Reason | None = None
    lacks: list[str] = field(default_factory=list)
    remedy: list[str] = field(default_factory=list)
    helped_s: float | None = None
    accused: list[tuple[str, str]] = field(default_factory=list)
    last: list[Reason] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """Return what to call it."""
        if self.answer is None:
            return "silent"
        return "in part" if self.lacks else "named"

    def look(self, reasons: Sequence[Reason]) -> None:
        """Note the reason that lacks least, and the first that lacks nothing."""
        found = [(self._lacking(reason), reason) for reason in reasons]
        some = [(lacking, reason) for lacking, reason in found if lacking is not None]
        if not some or self.named_s is not None:
            return
        lacking, best = min(some, key=lambda it: len(it[0]))
        if self.answer is None or len(lacking) <= len(self.lacks):
            self.answer, self.lacks = best, lacking
        if not lacking:
            self.named_s = time.monotonic() - self.begun

    def _lacking(self, reason: Reason) -> list[str] | None:
        """Return what a reason lacks; None if it says nothing of this problem."""
        whole = "\n".join([reason["code"], reason["text"], *reason["commands"]])
        place = any(_has(name, whole) for name in self.problem.places)
        kind = bool(re.search(self.problem.words, whole, re.IGNORECASE))
        if not (place and (kind or _ACCUSING.search(reason["code"]) or reason.get("blocks"))):
            return None
        lacking = [] if kind else ["class"]
        timed = reason.get("since") or _SINCE.search(reason["text"])
        return lacking + (["time"] if self.form == "since a time" and not timed else [])


def _has(name: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", text))


def is_trouble(reason: Reason) -> bool:
    """Return whether a reason says that something is wrong, apart from this machine's disk."""
    if reason["code"] in {"server-disk", "finished"}:
        return False
    is_broken = reason.get("lost") or reason.get("blocks")
    return bool(is_broken or _ACCUSING.search(reason["code"]) or reason["code"] == "paused")


def ask(stage: Stage) -> list[Reason]:
    """Return the reasons at the root; an error is one too."""
    try:
        answer = stage.type("taskq explain / -o json")
    except subprocess.TimeoutExpired:
        return []
    if answer.returncode:
        return [{"code": "error", "text": answer.stderr, "commands": [], "blocks": True}]
    reasons: list[Reason] = json.loads(answer.stdout)["reasons"]
    return reasons


def judge(farm: Farm, findings: Sequence[Finding], patience: float = 1.0) -> None:
    """Ask until all is named, or for so long; follow the remedies, and see whether they help.

    patience: by how much all may take longer, for tests on slow machines.
    """
    before = _pulse(farm)
    deadline = time.monotonic() + NAMED_S * patience
    while any(it.named_s is None for it in findings) and time.monotonic() < deadline:
        reasons = ask(farm.stage)
        for finding in findings:
            finding.look(reasons)
        guilty = set().union(*(it.problem.guilty for it in findings))
        for name, text in accused(farm, reasons, guilty):
            if name not in {it for it, _ in findings[0].accused}:
                findings[0].accused.append((name, text))
        for finding in findings:
            finding.last = reasons
        time.sleep(_LOOK_S)
    then = _pulse(farm)
    named = [finding for finding in findings if finding.answer is not None]
    for finding in findings:
        if finding.answer is None and named:
            finding.problem.mend()  # it would hide whether the others are better
    begun = [_heal(farm, finding) for finding in named]
    for finding, at in zip(named, begun, strict=True):
        rate, within_s = _rate(finding.problem, before, then), _HELPED_S * patience
        if _better(farm, finding.problem, rate, time.monotonic() + within_s):
            finding.helped_s = time.monotonic() - at
        else:
            finding.lacks.append("remedy")


def _pulse(farm: Farm) -> Pulse | None:
    with suppress(TaskqError, psycopg.Error):
        return farm.pulse()
    return None


def accused(farm: Farm, reasons: Iterable[Reason], guilty: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the innocent that a reason accuses, or whose harm it proposes."""
    stage = farm.stage
    innocent = {*stage.hosts, *stage.sites, *farm.campaigns} - guilty
    around = {stage.hosts[name].site for name in guilty if name in stage.hosts}
    for reason in reasons:
        harmed = {
            word
            for line in reason["commands"]
            if re.match(r"taskq (host ban|site ban|cancel|campaign cancel)\b", line)
            for word in shlex.split(line)
        }
        for name in sorted(innocent - around):
            accuses = _ACCUSING.search(reason["code"]) and _has(name, _verdict_of(reason))
            about_guilty = guilty & harmed or _names_any(reason, guilty)
            if not about_guilty and (name in harmed or accuses):
                yield name, f"{reason['code']}: {reason['text']}"


def _verdict_of(reason: Reason) -> str:
    """Return what a reason says of faults; where bad tasks merely lie is no accusation."""
    if reason["code"] not in {"failed", "failing-class", "unranked-results"}:
        return str(reason["text"])
    return "; ".join(it for it in reason["text"].split("; ") if _AT_FAULT.search(it))


def _names_any(reason: Reason, guilty: set[str]) -> bool:
    return any(_has(name, reason["text"]) for name in guilty)


def _heal(farm: Farm, finding: Finding) -> float:
    """Do what the answer says, line by line; return when that began."""
    assert finding.answer is not None
    commands = [line for line in finding.answer["commands"] if not _LOOKING.match(line)]
    killed = _TERMINATE.search(finding.answer["text"])
    begun = time.monotonic()
    if killed:
        with psycopg.connect(farm.stage.database.dsn) as session:
            session.execute(killed[0].encode())
        finding.remedy.append(killed[0])
        if finding.form == CHANCE:  # they come again: their owner ends it
            finding.problem.mend()
    bans = [line for line in commands if _BANNING.match(line)]
    if bans:  # must help without a repair
        commands = bans[:1]
    elif not killed:
        finding.problem.mend()
        finding.remedy.append("(repaired)")
    for line in commands:
        finding.remedy.append(line)
        ended = farm.stage.type(line)
        if "Add --yes" in ended.stderr:
            ended = farm.stage.type(f"{line} --yes")
        if ended.returncode:
            finding.lacks.append(f"`{line}` ends with {ended.returncode}: {ended.stderr[-300:]}")
    return begun


def _rate(problem: Problem, before: Pulse | None, then: Pulse | None) -> float:
    if before is None or then is None or then.at <= before.at:
        return 0.0
    return (_bad(problem, then) - _bad(problem, before)) / (then.at - before.at)


def _bad(problem: Problem, pulse: Pulse) -> int:
    counts: dict[str, Callable[[], int]] = {
        FAILS: lambda: pulse.failed,
        ODD: lambda: pulse.odd,
        SLOW: lambda: pulse.long,
    }
    return counts.get(problem.shows, lambda: 0)()


def _better(farm: Farm, problem: Problem, rate: float, deadline: float) -> bool:
    """Wait until the farm does well for a while; return whether it did."""
    last = _pulse(farm)
    while time.monotonic() < deadline:
        time.sleep(_WINDOW_S)
        now = _pulse(farm)
        if now is not None and last is not None and _is_well(farm, problem, rate, last, now):
            return True
        last = now
    return False


def _is_well(farm: Farm, problem: Problem, rate: float, last: Pulse, now: Pulse) -> bool:
    seconds = now.at - last.at
    fallen = _bad(problem, now) - _bad(problem, last) <= max(1.0, _FALLEN * rate * seconds)
    mine = [problem.campaign] if problem.campaign else farm.campaigns
    moves = all(now.done[path] > last.done[path] or not now.unfinished[path] for path in mine)
    there = problem.shows != AWAY or now.here >= len(farm.stage.hosts)
    loose = problem.shows != SLOW or not now.hung
    return fallen and moves and there and loose
