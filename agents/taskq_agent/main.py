"""The command `taskq-agent`: work for a queue behind gateways, or run a payload by hand."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from typing import Any, Optional, Sequence

from taskq_agent import run_command, streams, try_command
from taskq_agent.protocol import PROTOCOL
from taskq_agent.release import release

_INTERRUPTED = 130


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command line; return the exit code.

    With PYTHONINSPECT, Python would ask for statements now, and a batch job never end.
    """
    code = streams.exit_code_of(
        lambda: _run(arguments), lambda text: sys.stderr.write(f"taskq-agent: {text}\n")
    )
    if sys.flags.inspect:
        logging.shutdown()
        os._exit(code)
    return code


def _run(arguments: Optional[Sequence[str]]) -> int:
    try:
        options = _parser().parse_args(arguments)
        code: int = options.action(options)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except SystemExit as ended:  # argparse, after a help text or a wrong call
        return ended.code if isinstance(ended.code, int) else os.EX_USAGE
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="taskq-agent", description=__doc__)
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="as `version`")
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    run_command.add_to(actions)
    try_command.add_to(actions)
    version = actions.add_parser("version", help="print the release and the protocol's number")
    version.set_defaults(action=_version)
    return parser


class _PrintVersion(argparse.Action):
    """Prints when it is given: to find out the release takes longer than to make a parser."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, *_: object) -> None:
        parser.exit(_version(namespace))


def _version(_: argparse.Namespace) -> int:
    sys.stdout.write(f"taskq-agent {release() or '(not installed)'}, protocol {PROTOCOL}\n")
    return os.EX_OK
