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
from types import TracebackType
from typing import Final

_otherwise: Final = sys.excepthook


def _said_in_a_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("Interrupted.\n")
    else:
        _otherwise(kind, error, traceback)


# Loading the modules takes a while, in which nobody else can say it; `program` does later.
sys.excepthook = _said_in_a_line
