"""The campaign manager's command line.

main      the command `taskq`: its sub-commands, by section
program   loads a sub-command when it is called; errors become one line and an exit code
shared    shared options (`--dsn`, `--output`), campaign paths, the connection
output    records as a table, JSON or JSON Lines
render    tables, bars and the live display; the one module that imports rich
text      instants, durations and foreign text, fit for a terminal
commands  one module for each noun
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
