"""Meaning of exit codes: the contract between payload programs and the agent.

It follows sysexits.h. 0 is success. 75 (EX_TEMPFAIL) asks for another attempt, 65 (EX_DATAERR) for
none. 69 (EX_UNAVAILABLE) means that this node cannot run such tasks: it refuses the campaign. 85
means that another attempt goes on, if the campaign keeps checkpoints; see `kept_files`. Any other
code, and a signal, is a transient failure.
"""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from typing import Optional

from taskq_agent.handlers.base import Ended, broken, failed, refused
from taskq_agent.handlers.executables import bad_line_ends, why_not_executable
from taskq_agent.protocol import OUT_OF_MEMORY
from taskq_agent.signals import ENDING_SIGNALS

#: Class of a failure because a program for many tasks has ended well, without an outcome of this.
NO_OUTCOME = "no-outcome"
#: Another attempt goes on, if checkpoints are kept; the code that HTCondor's manual uses for it.
EX_CONTINUE = 85

#: Ends for lack of memory, if there is a limit: only the kernel kills so.
_OF_MEMORY = (MemoryError.__name__, "signal-SIGKILL", "exit-137")

#: A shell adds this to the number of the signal that killed its command.
_BY_SIGNAL = 128

# Exit codes of env, shells and other programs that start a program.
_NOT_FOUND = {126: "as when a program cannot be executed", 127: "as when a program is not found"}

#: Errors that keep any program from starting: the node has run out of a resource.
OF_THE_NODE = frozenset(
    {
        errno.EAGAIN,
        errno.ENOMEM,
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EROFS,
    }
)


def of_code(code: int, program: str = "") -> Optional[Ended]:
    """Return the end that an exit code stands for; None for 0. A signal is its negative number.

    program: the started file, if known.
    """
    if code == 0:
        return None
    if code < 0:
        name = signal_name(-code)
        hint = ", perhaps because memory ran out" if -code == signal.SIGKILL else ""
        return failed(f"signal-{name}", f"killed by {name}{hint}", retry=True)
    if code == os.EX_UNAVAILABLE:
        text = "exited with 69, EX_UNAVAILABLE: this node cannot do such tasks"
        return refused(f"exit-{code}", text, exit_code=code)
    text = f"exited with {code}"
    if code == os.EX_TEMPFAIL:
        text += ", EX_TEMPFAIL: try again"
    elif code == os.EX_DATAERR:
        text += ", EX_DATAERR: no further attempt can help"
    elif code > _BY_SIGNAL and (name := signal_name(code - _BY_SIGNAL)).startswith("SIG"):
        text += f", as a shell does if its command was killed by {name}"
    elif code in _NOT_FOUND:
        text += f", {_NOT_FOUND[code]}"
        if (why := bad_line_ends(program)) is not None:
            text += f": {why}"
    return failed(f"exit-{code}", text, retry=code != os.EX_DATAERR, exit_code=code)


def without_answer(code: int) -> Ended:
    """Return the end of an attempt whose resident process exited instead of answering."""
    text = "the handler's process exited without an answer"
    return of_code(code) or failed("no-answer", text, retry=True, exit_code=code)


def of_start(program: str, error: Exception) -> Ended:
    """Return the end of an attempt whose program could not be started."""
    text = f"{program!r} cannot be started: {error}"
    why = why_not_executable(error.filename, error) if isinstance(error, OSError) else None
    if why is not None:
        return refused("command-not-executable", f"{program!r} is there, but {why}")
    if isinstance(error, FileNotFoundError):
        place = " in the scratch folder" if "/" in program and program[0] != "/" else ""
        return refused(
            "command-not-found",
            f"{program!r} was not found{place}; give a name on PATH or an absolute path",
        )
    if isinstance(error, OSError):
        if error.errno in (errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.EISDIR):
            return refused("command-not-executable", text)
        if error.errno == errno.E2BIG:
            return failed("arguments-too-long", text, retry=False)
        if error.errno not in OF_THE_NODE:
            return refused("cannot-start", text)
    if isinstance(error, ValueError):  # NUL or a lone surrogate in an argument
        return failed("bad-argument", text, retry=False)
    return broken("cannot-start", text)


def of_memory(ended: Ended, limit: Optional[int]) -> Ended:
    """Return an end, named for lack of memory if it is one. limit: of memory; None if none."""
    if limit is None or ended.error_class not in _OF_MEMORY:
        return ended
    return replace(ended, error_class=OUT_OF_MEMORY)


def signal_name(number: int) -> str:
    """Return `SIGSEGV` for 11; the number itself for a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


#: Classes of ends by such a signal: of a program, and of one that a shell has run.
BY_ENDING_SIGNAL = frozenset(
    name
    for number in ENDING_SIGNALS
    for name in (f"signal-{signal_name(number)}", f"exit-{_BY_SIGNAL + number}")
)


def of_error(error: Exception) -> Ended:
    """Return the end of an attempt that an unexpected error of this agent ends.

    It costs the task an attempt, so that no task returns for ever, unless the node is at fault.
    """
    text = f"the agent has failed: {type(error).__name__}: {error}"
    of_node = isinstance(error, OSError) and error.errno in OF_THE_NODE
    if of_node or isinstance(error, MemoryError):
        return broken("agent-error", text)
    return failed("agent-error", text, retry=True)
