"""The command `taskq-agent`: work for a queue behind gateways, or run a payload by hand."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Optional, Sequence

from taskq_agent import run_command, streams, try_command
from taskq_agent.protocol import PROTOCOL
from taskq_agent.release import release

_INTERRUPTED = 130
_COMPLETED = "the command has ended, but "


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command line; return the exit code, or raise SystemExit when argparse does."""
    streams.take_over()
    try:
        code = _run(arguments)
    except streams.OutputLost as lost:
        return _lost("", lost, 0)
    except SystemExit as ended:  # help, or a wrong call
        code = ended.code if isinstance(ended.code, int) else os.EX_USAGE
        if (late := streams.flushed()) is None:
            raise
        return _lost(_COMPLETED, late, code)
    late = streams.flushed()
    return code if late is None else _lost(_COMPLETED, late, code)


def _run(arguments: Optional[Sequence[str]]) -> int:
    options = _parser().parse_args(arguments)
    try:
        code: int = options.action(options)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code


def _lost(before: str, lost: streams.OutputLost, code: int) -> int:
    if lost.gone:
        return code
    sys.stderr.write(f"taskq-agent: {before}{lost}\n")
    return code or streams.EXIT_OUTPUT_LOST


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="taskq-agent", description=__doc__)
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    run_command.add_to(actions)
    try_command.add_to(actions)
    version = actions.add_parser("version", help="print the release and the protocol's number")
    version.set_defaults(action=_version)
    return parser


def _version(_: argparse.Namespace) -> int:
    sys.stdout.write(f"taskq-agent {release() or '(not installed)'}, protocol {PROTOCOL}\n")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
