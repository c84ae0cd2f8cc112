"""Judge of a drill: what `taskq explain` alone says about what was planted, and whom it accuses."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.drill.scene import Kind, Scene, Signs
from tests.drill.stage import Stage

Reason = dict[str, Any]

#: Reasons that say that something is broken, as opposed to busy. Attempts that are overdue have a
#: host, which is no accusation.
_ACCUSING: Final = re.compile("fail|slow-|banned-|lost|silent|wrong|constant|no-handler")
_BAN: Final = re.compile(r"taskq (?:host|site) ban (.*)")
#: Seconds in which a remedy must have helped.
HEALED_S: Final = 60.0
#: Commands that go on: the drill lets them.
_RUNNING: Final = ("taskq agent run", "taskq keeper", "taskq gateway")


@dataclass
class Finding:
    """What became of a planted problem. Times in seconds since it was planted; None: never.

    answer: the reason that named it. trouble: why the remedy did not help.
    """

    kind: Kind
    scene: Scene
    signs: Signs
    begun: float
    named_s: float | None = None
    answer: Reason | None = None
    remedy: str = ""
    healed_s: float | None = None
    trouble: str = ""

    def look(self, reasons: Sequence[Reason]) -> None:
        """Note whether a reason names it."""
        if self.named_s is None:
            self.answer = next((one for one in reasons if _names(one, self.signs)), None)
            if self.answer is not None:
                self.named_s = time.monotonic() - self.begun


@dataclass
class Verdict:
    """What became of one stage. accused: innocent names with the reason; last: the last answer."""

    findings: list[Finding] = field(default_factory=list)
    accused: list[tuple[str, str]] = field(default_factory=list)
    last: list[Reason] = field(default_factory=list)


def judge(stage: Stage, findings: list[Finding]) -> Verdict:
    """Ask until all is named, or for so long; then type the remedies, and see whether they help."""
    verdict = Verdict(findings)
    while True:
        verdict.last = stage.explain()
        for one in findings:
            one.look(verdict.last)
        waits = [one for one in findings if one.named_s is None]
        if not any(time.monotonic() < one.begun + one.signs.within_s for one in waits):
            break
    guilty = set().union(*(one.scene.guilty for one in findings))
    verdict.accused = list(_accused(stage, verdict.last, guilty))
    for one in findings:
        if one.answer is not None:
            _heal(stage, one)
    return verdict


def _whole(reason: Reason) -> str:
    return "\n".join([reason["text"], *reason["commands"]])


def _names(reason: Reason, signs: Signs) -> bool:
    commands = "\n".join(reason["commands"])
    return all(re.search(one, _whole(reason), re.IGNORECASE) for one in signs.says) and bool(
        re.search(signs.remedy, commands)
    )


def _accused(stage: Stage, reasons: Sequence[Reason], guilty: set[str]) -> Any:
    """Yield the innocent whom a reason accuses, or whose ban it proposes."""
    innocent = {*stage.hosts, *stage.sites, *stage.campaigns} - guilty
    their_sites = {stage.hosts[name].site for name in guilty if name in stage.hosts}
    for reason in reasons:
        banned = [name for one in reason["commands"] for name in _banned(one)]
        for name in sorted(innocent):
            named = re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", reason["text"])
            if name in banned or (
                named and name not in their_sites and _ACCUSING.search(reason["code"])
            ):
                yield name, reason["text"]


def _banned(command: str) -> list[str]:
    found = _BAN.fullmatch(command)
    return shlex.split(found[1]) if found else []


def _heal(stage: Stage, one: Finding) -> None:
    """Type the command that the answer proposes, and wait until it has helped."""
    assert one.answer is not None
    commands = one.answer["commands"]
    one.remedy = next(line for line in commands if re.search(one.signs.remedy, line))
    one.signs.repair()
    begun = time.monotonic()
    if one.remedy.startswith(_RUNNING):
        host = stage.spare()
        stage.process(host.name, shlex.split(one.remedy), **host.environment)
    else:
        ended = stage.type(one.remedy)
        if "Add --yes" in ended.stderr:  # a terminal would ask
            ended = stage.type(f"{one.remedy} --yes")
        if ended.returncode:
            one.trouble = f"`{one.remedy}` ends with {ended.returncode}: {ended.stderr.strip()}"
            return
    while not one.signs.healed():
        if time.monotonic() > begun + HEALED_S:
            one.trouble = f"nothing is better {HEALED_S:.0f} s after `{one.remedy}`"
            return
        time.sleep(0.2)
    one.healed_s = time.monotonic() - begun
