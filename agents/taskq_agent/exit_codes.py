"""Exit codes of agents, after sysexits.h where it has one."""

from __future__ import annotations

UNSERVABLE = 3  # the exit code of the command line for "not possible in this state"
NODE_BROKEN = 69  # EX_UNAVAILABLE
AGENT_BROKEN = 70  # EX_SOFTWARE
OUTPUT_LOST = 74  # EX_IOERR
UNDELIVERED = 75  # EX_TEMPFAIL
REFUSED = 77  # EX_NOPERM
