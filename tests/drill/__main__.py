"""Plant problems, and see what `taskq explain` says: `python -m tests.drill --seed 7`.

The seed draws which problems share a queue, and the names of hosts, sites and campaigns. Prints a
line for each problem, and a score. Exit code: 0; 2 if the drill itself failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.own_server import own_server
from tests.drill.judge import Verdict
from tests.drill.run import ALL, rounds, run_round


def main() -> int:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument(
        "--kinds", nargs="+", choices=sorted(ALL), metavar="KIND", help="only these"
    )
    parser.add_argument("--together", type=int, default=5, metavar="N", help="problems at a time")
    parser.add_argument("--list", action="store_true", help="list the kinds")
    parser.add_argument("--answers", action="store_true", help="print each answer whole")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all findings there")
    options = parser.parse_args()
    if options.list:
        _say("\n".join(sorted(ALL)))
        return 0
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # our kills are no news
    verdicts = []
    with own_server() as server:
        for kinds in rounds(options.seed, options.kinds or sorted(ALL), options.together):
            verdicts.append(run_round(server, f"{options.seed} {kinds}", kinds))
            _say(_lines(verdicts[-1], whole=options.answers))
    _say(_score(verdicts))
    if options.json:
        options.json.write_text(json.dumps(_records(verdicts), indent=1) + "\n")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _lines(verdict: Verdict, *, whole: bool) -> str:
    lines = []
    for finding in verdict.findings:
        named = "MISSED" if finding.named_s is None else f"named after {finding.named_s:3.0f} s"
        helped = (
            ""
            if finding.named_s is None
            else (finding.trouble or f"helped in {finding.healed_s:.0f} s")
        )
        lines.append(f"{finding.kind.name:24} {named:20} {helped}")
    lines += [f"  ACCUSED {name}: {text}" for name, text in verdict.accused]
    if whole or any(finding.named_s is None for finding in verdict.findings):
        for reason in verdict.last:
            lines.append(f"    {reason['code']}: {reason['text']}")
            lines += [f"      $ {command}" for command in reason["commands"]]
    return "\n".join(lines)


def _score(verdicts: Sequence[Verdict]) -> str:
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    named = sorted(finding.named_s for finding in findings if finding.named_s is not None)
    healed = sum(finding.healed_s is not None for finding in findings)
    accused = sum(len(verdict.accused) for verdict in verdicts)
    missed = [finding.kind.name for finding in findings if finding.named_s is None]
    useless = [finding.kind.name for finding in findings if finding.trouble]
    lines = [
        "",
        f"{len(named)} of {len(findings)} named by `taskq explain` alone",
        f"{healed} of {len(named)} remedies helped"
        + (f", not: {', '.join(useless)}" * bool(useless)),
        f"{accused} falsely accused",
    ]
    if named:
        lines.append(
            f"seconds until named: {named[len(named) // 2]:.0f} (median), {named[-1]:.0f} (most)"
        )
    if missed:
        lines.append(f"missed: {', '.join(missed)}")
    return "\n".join(lines)


def _records(verdicts: Sequence[Verdict]) -> list[dict[str, object]]:
    return [
        {
            "kind": finding.kind.name,
            "named_s": finding.named_s,
            "answer": finding.answer,
            "remedy": finding.remedy,
            "healed_s": finding.healed_s,
            "trouble": finding.trouble,
            "accused": verdict.accused,
            "last": verdict.last,
        }
        for verdict in verdicts
        for finding in verdict.findings
    ]


if __name__ == "__main__":
    sys.exit(main())
