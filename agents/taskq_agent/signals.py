"""Signals that end a job, or warn that its end is near."""

from __future__ import annotations

import signal

_END_NOTHING = "CHLD CONT STOP TSTP TTIN TTOU URG WINCH"
_FOR_A_FAULT = "ABRT BUS FPE ILL SEGV SYS TRAP"
_LEFT_ALONE = "KILL PIPE XFSZ"  # nobody can catch the first, and Python ignores the others

#: All signals that end a process unless it catches them, and that are not for a fault of its own.
#: Slurm and LSF send any of them, Grid Engine SIGUSR1, SIGUSR2 and SIGXCPU, a closed terminal
#: SIGHUP.
ENDING_SIGNALS = frozenset(signal.valid_signals()) - {
    getattr(signal, f"SIG{name}") for name in f"{_END_NOTHING} {_FOR_A_FAULT} {_LEFT_ALONE}".split()
}
