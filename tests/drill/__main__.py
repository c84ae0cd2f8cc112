"""Plant problems, and see what `taskq explain` says: `python -m tests.drill --seed 7`.

drawn: combinations of a cause and a form, in a farm each. known: problems from a list. calm: farms
in which nothing is wrong. The seed draws all, with the names of hosts, sites and campaigns. Prints
a line for each problem, and a score. Exit code: 0; 1 if a calm farm was not silent; 2 if the drill
itself failed.
"""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.own_server import own_server
from tests.drill.calm import SHAPES, keep_calm
from tests.drill.drawn.drawing import ALL as PAIRS
from tests.drill.drawn.drawing import carry_out, drawn
from tests.drill.drawn.report import line, score
from tests.drill.judge import Verdict
from tests.drill.run import ALL, rounds, run_round


def main() -> int:
    """Do as the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    what = parser.add_subparsers(dest="what", required=True)
    cases = what.add_parser("drawn", help="combinations of a cause and a form")
    cases.add_argument("--cases", type=int, default=len(PAIRS), metavar="N")
    cases.add_argument("--first", type=int, default=0, metavar="N", help="leave out N farms")
    cases.add_argument("--only", nargs=2, metavar=("CAUSE", "FORM"), help="this one, N times")
    cases.add_argument("--showing", default="", metavar="PATTERN", help="draw what matches it")
    known = what.add_parser("known", help="problems from a list")
    known.add_argument("--kinds", nargs="+", choices=sorted(ALL), metavar="KIND", help="only these")
    known.add_argument("--list", action="store_true", help="list the kinds")
    calm = what.add_parser("calm", help="farms in which nothing is wrong")
    calm.add_argument("--shape", nargs="+", choices=sorted(SHAPES), default=[*SHAPES])
    calm.add_argument("--minutes", type=float, default=5.0, metavar="N", help="each")
    calm.add_argument("--seed", type=int, default=1, metavar="N")
    for command, together in ((cases, 1), (known, 5)):
        command.add_argument("--seed", type=int, default=1, metavar="N")
        command.add_argument(
            "--together", type=int, default=together, metavar="N", help="problems at a time"
        )
        command.add_argument("--answers", action="store_true", help="print each answer whole")
    known.add_argument("--json", type=Path, metavar="FILE", help="write all findings there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # the farm must not stay behind
    logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # our kills are no news
    return {"drawn": _drawn, "known": _known, "calm": _calm}[options.what](options)


def _drawn(options: argparse.Namespace) -> int:
    findings = []
    groups = drawn(options.seed, options.cases, options.together)
    if options.only:
        groups = iter([[tuple(options.only)]] * options.cases)
    for number, pairs in islice(enumerate(groups), options.first, None):
        with own_server() as server:
            seed = f"{options.seed} {number} {pairs}"
            found = carry_out(server, seed, pairs, showing=options.showing)
        findings += found
        _say("\n".join(line(it, whole=options.answers) for it in found))
    _say(f"\n{score(findings)}")
    return 0


def _calm(options: argparse.Namespace) -> int:
    silent = True
    for shape in options.shape:
        with own_server() as server:
            found = keep_calm(server, shape, 60 * options.minutes, f"{options.seed}")
        silent &= found.is_silent
        said = [*found.said.values(), *(f"message: {text}" for text in found.messages)]
        _say(
            f"{shape}: {found.done:,} tasks done in {options.minutes:g} min, asked "
            f"{found.asked} times: {'; '.join(said) or 'silent'}"
        )
    return 0 if silent else 1


def _known(options: argparse.Namespace) -> int:
    if options.list:
        _say("\n".join(sorted(ALL)))
        return 0
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
