"""The report of a drill with drawn cases, as Markdown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.drill.drawn.case import CAUSES
from tests.drill.drawn.forms import FORMS
from tests.drill.drawn.verdicts import Finding


def line(finding: Finding, *, whole: bool) -> str:
    """Return what became of a problem; whole: with all reasons, as if it was not named."""
    after = "" if finding.named_s is None else f" after {finding.named_s:.0f} s"
    helped = "" if finding.helped_s is None else f", helped in {finding.helped_s:.0f} s"
    lacks = f" (lacks {'; '.join(finding.lacks)})" if finding.lacks else ""
    what = finding.problem.what
    lines = [f"{finding.cause} {finding.form}: {finding.outcome}{after}{helped}{lacks}: {what}"]
    lines += [f"  ACCUSED {name}: {text}" for name, text in finding.accused]
    if finding.answer is not None and (whole or finding.lacks):
        lines.append(f"  best: {finding.answer['code']}: {finding.answer['text']}")
        lines += [f"    $ {word}" for word in finding.remedy]
    if whole or finding.outcome != "named":
        for reason in finding.last:
            lines.append(f"    {reason['code']}: {reason['text']}")
            lines += [f"      $ {command}" for command in reason["commands"]]
    return "\n".join(lines)


def table(findings: Sequence[Finding]) -> str:
    """Return how many were named, by cause and form: `named/drawn`."""
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for finding in findings:
        cells[finding.cause, finding.form][finding.outcome] += 1
    lines = [f"| | {' | '.join(FORMS)} |", "|---" * (len(FORMS) + 1) + "|"]
    for cause in CAUSES:
        row = []
        for form in FORMS:
            found = cells.get((cause, form))
            counts = () if found is None else found.items()
            row.append(", ".join(f"{number} {what}" for what, number in counts))
        lines.append(f"| {cause} | {' | '.join(row)} |")
    return "\n".join(lines)


def score(findings: Sequence[Finding]) -> str:
    """Return the sums of a drill."""
    outcomes = Counter(it.outcome for it in findings)
    named = sorted(it.named_s for it in findings if it.named_s is not None)
    accused = sum(bool(it.accused) for it in findings)
    text = f"{outcomes['named']} of {len(findings)} named, {outcomes['in part']} in part, "
    text += f"{outcomes['silent']} silent over 60 s; {accused} farms with a false accusation"
    if named:
        text += f"; seconds until named: {named[len(named) // 2]:.0f} (median), "
        text += f"{named[-1]:.0f} (most)"
    return f"{table(findings)}\n\n{text}"
