"""Calls that spoil their process for the calls after them, and a call that shows whether it is."""

# ruff: noqa: PLW0108, PTH102, PTH106, PTH108, PTH109, PTH115, PTH123, PTH208, SIM115

from __future__ import annotations

import builtins
import ctypes
import decimal
import faulthandler
import functools
import gc
import importlib
import json
import locale
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

KEPT: list[Any] = []
#: State of this module, which nobody but a new process can mend.
BROKEN: list[bool] = []
LOADED: list[int] = []


@functools.cache
def receptor() -> int:
    """Load something once for each process."""
    LOADED.append(1)
    return os.getpid()


@functools.cache
def set_up() -> None:
    """Set up what later calls need, once."""
    os.environ["SPOILING_TOOLS"] = "here"
    os.environ["PATH"] += ":/opt/tools"
    sys.path.append("/opt/tools")


def call(payload: dict[str, Any], _: object) -> dict[str, Any]:
    """Do what a payload names, as a handler of the kind `python`."""
    return {"value": act(payload["what"])}


def act(what: str) -> Any:
    """Spoil the process in the named way, or do one of the other calls."""
    return ACTS[what]()


def look() -> dict[str, Any]:
    """Return what the process is like, with proofs that usual things work."""
    print("looking", flush=True)  # noqa: T201  # payloads print
    sys.stderr.write("")
    with open("probe.txt", "w") as file:
        file.write(json.dumps([1]))
    os.unlink("probe.txt")
    echoed = subprocess.run(["/bin/echo", "x"], capture_output=True, check=True)
    files = len(os.listdir("/proc/self/fd"))
    return {
        "stdin": sys.stdin.read(),
        "descriptors": [_identity(fd) for fd in range(3)],
        "echoed": echoed.stdout.decode(),
        "cwd": os.getcwd() == os.environ["TASKQ_SCRATCH"],
        "mask": [os.umask(0o77), os.umask(0o22)][0],
        "environment": {
            name: it for name, it in os.environ.items() if not name.startswith("TASKQ_")
        }.keys()
        - {"TMPDIR", "LC_CTYPE"},
        "path": os.environ.get("PATH"),
        "sys.path": [*sys.path],
        "importers": len(sys.meta_path),
        "deep": _depth(600),
        "trace": sys.gettrace() is None and sys.getprofile() is None,
        "collector": gc.isenabled(),
        "strict": any(pair[0] == "error" for pair in warnings.filters),
        "json": importlib.import_module("json") is json,
        "max": max(3, 2),
        "digits": len(str(10**2_000)),
        "timer": signal.getitimer(signal.ITIMER_REAL)[0],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "handlers": [str(signal.getsignal(number)) for number in (1, 2, 13, 14, 15, 17)],
        "limits": [resource.getrlimit(number) for number in (resource.RLIMIT_FSIZE, 3, 7)],
        "locale": locale.setlocale(locale.LC_ALL),
        "threads": threading.active_count(),
        "files": files < 200,
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "processors": len(os.sched_getaffinity(0)),
        "decimal": str(decimal.Decimal(1) / 3),
        "sockets": socket.getdefaulttimeout(),
        "logs": logging.root.isEnabledFor(logging.CRITICAL),
        "hour": time.localtime(0).tm_hour,
    }


def seen() -> dict[str, Any]:
    """Return what `look` finds, in JSON."""
    return {**(found := look()), "environment": sorted(found["environment"])}


def need() -> str:
    """Need what `set_up` sets up once."""
    set_up()
    assert "/opt/tools" in sys.path
    return os.environ["SPOILING_TOOLS"] + os.environ["PATH"][-11:]


def fail_if_broken() -> str:
    """Fail after `break_module`, and in no other process."""
    if BROKEN:
        raise RuntimeError("this process is broken")
    return "whole"


def fail() -> None:
    """Fail always."""
    raise ValueError("no")


def _identity(fd: int) -> str:
    link = os.readlink(f"/proc/self/fd/{fd}")
    return link.partition(":")[0]


def _depth(left: int) -> int:
    return 0 if left == 0 else 1 + _depth(left - 1)


def _leak_behind() -> None:
    with open(os.devnull):
        KEPT.append(open(os.devnull))


def _leave_process() -> None:
    if os.fork() == 0:
        os._exit(0)


def _close_all() -> None:
    os.closerange(3, 256)


def _over_all() -> None:
    with open(os.devnull, "w") as nothing:
        for fd in range(3, 64):
            if fd != nothing.fileno():
                os.dup2(nothing.fileno(), fd)


def _leave_thread() -> None:
    KEPT.append(threading.Event())
    threading.Thread(target=KEPT[-1].wait, daemon=True).start()


def _leave_busy_thread() -> None:
    KEPT.append(threading.Event())
    threading.Thread(target=KEPT[-1].wait).start()


def _leave_folder() -> None:
    os.mkdir("gone")
    os.chdir("gone")
    os.rmdir("../gone")


def _lower_limit(name: str, soft: int) -> None:
    number = getattr(resource, name)
    resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))


def _break_builtin() -> None:
    def no_more(*_: object) -> None:
        raise RuntimeError("there is no max any more")

    builtins.max = no_more  # type: ignore[assignment]


def _say_and_choose() -> int:
    print("said")  # noqa: T201  # payloads print
    return max(3, 2)


def _raise_soon(after_s: float = 0.01) -> None:
    def late(*_: object) -> None:
        raise TimeoutError("too late")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, after_s, 0.01)


def _set_zone() -> None:
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


def _fail_and_close() -> None:
    sys.stdout.close()
    raise ValueError("closed")


def _done(spoil: Callable[[], object]) -> str:
    spoil()
    return "done"


#: To be grown: each way in which a call can leave its process in another state.
SPOILERS: dict[str, Callable[[], object]] = {
    "close stdout": lambda: sys.stdout.close(),
    "close stderr": lambda: sys.stderr.close(),
    "close stdin": lambda: sys.stdin.close(),
    "detach stdout": lambda: sys.stdout.detach(),
    "replace stdout": lambda: setattr(sys, "stdout", None),
    "close 0": lambda: os.close(0),
    "close 1": lambda: os.close(1),
    "close 2": lambda: os.close(2),
    "close 0, 1, 2": lambda: os.closerange(0, 3),
    "close 3 to 255": _close_all,
    "other files at 3 to 63": _over_all,
    "other file at 1": lambda: os.dup2(os.open(os.devnull, os.O_WRONLY), 1),
    "open 600 files": lambda: KEPT.extend(open(os.devnull) for _ in range(600)),
    "close the buffer of stdout": lambda: sys.stdout.buffer.close(),
    "close all files": lambda: os.closerange(0, 4_096),
    "chdir": lambda: os.chdir("/"),
    "chdir to a removed folder": _leave_folder,
    "umask": lambda: os.umask(0o777),
    "set a variable": lambda: os.environ.__setitem__("SPOILED", "1"),
    "clear variables": lambda: os.environ.clear(),
    "replace os.environ": lambda: setattr(os, "environ", {}),
    "PATH": lambda: os.environ.__setitem__("PATH", ""),
    "time zone": _set_zone,
    "sys.path": lambda: sys.path.clear(),
    "replace sys.path": lambda: setattr(sys, "path", ["/nowhere"]),
    "sys.modules": lambda: sys.modules.pop("json"),
    "replace a module": lambda: sys.modules.__setitem__("json", sys),
    "all modules": lambda: sys.modules.clear(),
    "importers": lambda: sys.meta_path.clear(),
    "a built-in function": _break_builtin,
    "all built-in names": lambda: [
        vars(builtins).__setitem__(name, None)
        for name in list(vars(builtins))
        if name.islower() and not name.startswith("_")
    ],
    "recursion limit": lambda: sys.setrecursionlimit(150),
    "trace": lambda: sys.settrace(lambda *_: None),
    "profile": lambda: sys.setprofile(lambda *_: None),
    "garbage": lambda: gc.disable(),
    "warnings": lambda: warnings.simplefilter("error"),
    "an alarm that raises": _raise_soon,
    "an end that comes later": lambda: faulthandler.dump_traceback_later(0.2, exit=True),
    "digits": lambda: getattr(sys, "set_int_max_str_digits", int)(640),
    "alarm": lambda: signal.setitimer(signal.ITIMER_REAL, 0.2),
    "blocked signals": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, 17}),
    "handler of SIGCHLD": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "handler of SIGTERM": lambda: signal.signal(signal.SIGTERM, lambda *_: None),
    "handler of SIGPIPE": lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    "limit of files": lambda: _lower_limit("RLIMIT_NOFILE", 4),
    "limit of file sizes": lambda: _lower_limit("RLIMIT_FSIZE", 0),
    "limit of the stack": lambda: _lower_limit("RLIMIT_STACK", 65_536),
    "locale": lambda: locale.setlocale(locale.LC_ALL, "C"),
    "a thread": _leave_thread,
    "a thread that keeps the process": _leave_busy_thread,
    "priority": lambda: os.nice(3),
    "processors": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    "decimal": lambda: setattr(decimal.getcontext(), "prec", 2),
    "sockets": lambda: socket.setdefaulttimeout(1.0),
    "logs": lambda: logging.disable(logging.CRITICAL),
    "the end of the process": lambda: os._exit(3),
    "a crash": lambda: ctypes.string_at(0),
    "an exit": lambda: sys.exit(1),
    "raise": _fail_and_close,
}
#: Alarms that raise within microseconds: while the call ends, or behind its end.
ALARMS = {f"alarm after {n} us": functools.partial(_raise_soon, n * 1e-6) for n in range(1, 80, 2)}
ACTS: dict[str, Callable[[], Any]] = {
    **{name: functools.partial(_done, it) for name, it in SPOILERS.items()},
    **{name: functools.partial(_done, it) for name, it in ALARMS.items()},
    "look": seen,
    "receptor": receptor,
    "need": need,
    "break": lambda: BROKEN.append(True),
    "fail if broken": fail_if_broken,
    "fail": fail,
    "leak": lambda: KEPT.append(open(os.devnull)),
    "leak behind another": _leak_behind,
    "leave a process": _leave_process,
    "large": lambda: b"x" * 600_000,
    "pid": os.getpid,
    "say and choose": _say_and_choose,
    "sleep": lambda: time.sleep(0.4),
    "pause": lambda: time.sleep(0.1),
    "nothing": lambda: None,
}
