"""The campaign manager's command line.

main        the command `taskq`: its sub-commands, by section
program     loads a sub-command when it is called; errors become one line and an exit code
invocation  the connection of a command to its queue
early_exits how commands end early: questions, Ctrl-C, signals
seeder      seeding with its progress
options     options that commands share
display     records as a table, JSON or JSON Lines; text fit for a terminal; progress
commands    the commands, by subject; `main` says which module has which
top         the full screen
"""

from __future__ import annotations

import sys

from taskq_agent.import_path import put_own_first

put_own_first()

from types import TracebackType  # noqa: E402 - from here on modules are Python's own
from typing import Final  # noqa: E402

_usual_hook: Final = sys.excepthook


def _in_one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("Interrupted.\n")
    else:
        _usual_hook(kind, error, traceback)


# Modules take a while to load. Until they are loaded, only this hook reports Ctrl-C in one line;
# from then on `program` does.
sys.excepthook = _in_one_line
