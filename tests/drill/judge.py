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
            self.answer = next((reason for reason in reasons if _names(reason, self.signs)), None)
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
        for finding in findings:
            finding.look(verdict.last)
        waits = [finding for finding in findings if finding.named_s is None]
        if not any(time.monotonic() < finding.begun + finding.signs.within_s for finding in waits):
            break
    guilty = set().union(*(finding.scene.guilty for finding in findings))
    verdict.accused = list(_accused(stage, verdict.last, guilty))
    for finding in findings:
        if finding.answer is not None:
            _heal(stage, finding)
    return verdict


def _whole(reason: Reason) -> str:
    return "\n".join([reason["text"], *reason["commands"]])


def _names(reason: Reason, signs: Signs) -> bool:
    commands = "\n".join(reason["commands"])
    return all(re.search(say, _whole(reason), re.IGNORECASE) for say in signs.says) and bool(
        re.search(signs.remedy, commands)
    )


def _accused(stage: Stage, reasons: Sequence[Reason], guilty: set[str]) -> Any:
    """Yield the innocent whom a reason accuses, or whose ban it proposes."""
    innocent = {*stage.hosts, *stage.sites, *stage.campaigns} - guilty
    their_sites = {stage.hosts[name].site for name in guilty if name in stage.hosts}
    for reason in reasons:
        banned = [name for command in reason["commands"] for name in _banned(command)]
        for name in sorted(innocent):
            named = re.search(rf"(?<![\w/]){re.escape(name)}(?![\w/])", reason["text"])
            if name in banned or (
                named and name not in their_sites and _ACCUSING.search(reason["code"])
            ):
                yield name, reason["text"]


def _banned(command: str) -> list[str]:
    found = _BAN.fullmatch(command)
    return shlex.split(found[1]) if found else []


def _heal(stage: Stage, finding: Finding) -> None:
    """Type the command that the answer proposes, and wait until it has helped."""
    assert finding.answer is not None
    commands = finding.answer["commands"]
    finding.remedy = next(line for line in commands if re.search(finding.signs.remedy, line))
    finding.signs.repair()
    begun = time.monotonic()
    if finding.remedy.startswith(_RUNNING):
        host = stage.spare()
        stage.process(host.name, shlex.split(finding.remedy), **host.environment)
    else:
        ended = stage.type(finding.remedy)
        if "Add --yes" in ended.stderr:  # a terminal would ask
            ended = stage.type(f"{finding.remedy} --yes")
        if ended.returncode:
            finding.trouble = (
                f"`{finding.remedy}` ends with {ended.returncode}: {ended.stderr.strip()}"
            )
            return
    while not finding.signs.healed():
        if time.monotonic() > begun + HEALED_S:
            finding.trouble = f"nothing is better {HEALED_S:.0f} s after `{finding.remedy}`"
            return
        time.sleep(0.2)
    finding.healed_s = time.monotonic() - begun
