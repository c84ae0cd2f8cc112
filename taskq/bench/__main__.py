"""Run the benchmark: `python -m taskq.bench`, or `make bench`."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from taskq import embedded, migrations
from taskq.bench import cases, machine, report
from taskq.database import Database
from taskq.errors import TaskqError


def main() -> int:
    """Run the cases asked for in scratch databases; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m taskq.bench", description=cases.__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(cases.CASES)}; default: all")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each, in turn")
    parser.add_argument("--json", type=Path, help="write the findings here as well")
    chosen = parser.parse_args()
    names = chosen.cases or list(cases.CASES)
    if unknown := set(names) - set(cases.CASES):
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    try:
        dsn = os.environ.get("TASKQ_DSN")
        info = None if dsn else embedded.Server().up()
        server = Database(dsn or (info.dsn if info else "")).open()
        folder = Path(tempfile.gettempdir()) if info is None else info.log_file.parent
        with server.scratch() as scratch:
            migrations.migrate(scratch)
            looked = machine.look(scratch, folder)
        findings = []
        for found in cases.run(server, names, chosen.seconds, chosen.rounds):
            findings.append(found)
            print(f"{found.case}: {found.compared.ratio:.2f} of {found.beside}", file=sys.stderr)
    except TaskqError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code
    print(*report.lines(looked, findings), sep="\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(report.as_json(looked, findings), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
