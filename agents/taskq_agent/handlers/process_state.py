"""State of a resident child that a call can leave behind for the next: compared, and put back.

`ProcessState` takes a snapshot before the first call, and compares it after calls. It puts back
what can be put back. Memory of the payload's own, such as caches and modules, is no part of it.

Some changes may be the function's own set-up, which it makes once, such as a search path: they are
`lasting`. If the first call of a child makes one, it may be that, or a call that spoils its
process. So the child ends, and if the first call of the next child makes the same change, it is the
function's own and stays; see `renewal`.
"""

from __future__ import annotations

import _locale
import _thread
import builtins
import faulthandler
import gc
import importlib
import os
import resource
import signal
import sys
import time
import warnings
from contextlib import suppress
from typing import Any, Callable, Collection, Dict, List, Mapping, NamedTuple, Optional, Tuple

from taskq_agent.handlers.child_streams import OutputStream, count_files, identity
from taskq_agent.handlers.kept_names import KeptNames
from taskq_agent.handlers.library_settings import SETTINGS, LibrarySetting

#: Files that calls may leave open, or half as many as may be open, if that is less.
_MORE_FILES = 512
#: Files kept open for what the process has to write when calls have left none free.
_SPARE_FILES = 4
#: Threads that a child may have between calls, if the function has some of its own.
_MOST_THREADS = 1_000
#: Processes of its own, also ended ones not waited for, that a child may have between calls.
_MOST_CHILDREN = 256
#: Checks until these and open files are counted again; the lowest free number is seen by each.
_COUNT_EVERY = 64
#: Seconds within which a thread may end after its call.
_THREAD_ENDS_S = 0.02
_SIGNALS = [*{*range(1, 32)} - {signal.SIGKILL, signal.SIGSTOP}]
#: Limits whose lowering makes calls fail.
_LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_STACK,
)
_HAS_AFFINITY = hasattr(os, "sched_getaffinity")
#: As `signal`, but without names for each number, which cost more than all else here.
_signal: Any = importlib.import_module("_signal")
_count_threads = _thread._count  # noqa: SLF001 - `threading` has it, but slower
_VARIABLE = "the variable "
_THREADS = "its threads"


class Found(NamedTuple):
    """What calls have left. restored: it was put back; lasting: see the module.

    stuck: it cannot be put back.
    """

    restored: List[str]
    lasting: List[str]
    stuck: List[str]


class _Part(NamedTuple):
    """A part of the state; put_back: None if nothing can."""

    name: str
    put_back: Optional[Callable[[Any], object]]
    lasting: bool = False


class ProcessState:
    """The state of this process, for its main thread.

    replies: the descriptor of its answers. error: a copy of the standard error. folder: the working
    folder of the call.
    """

    def __init__(self, replies: int, error: int) -> None:
        self.folder = ""
        self._replies, self._error = replies, error
        self._connected = identity(replies)
        self._streams: List[Any] = [sys.stdin, sys.stdout, sys.stderr]
        self._path, self._environ = sys.path, os.environ
        self._filters: Any = warnings.filters
        # the dictionary itself: a copy would decode each name
        self._variables: Dict[bytes, bytes] = vars(os.environ)["_data"]
        self._recursion = sys.getrecursionlimit()
        self._has_timer = _signal.getitimer(_signal.ITIMER_REAL)[0] > 0
        self._checks = 0
        self._spare = [os.dup(error) for _ in range(_SPARE_FILES)]
        self._files = count_files()
        self._threads = _count_threads()
        self._own: Collection[str] = ()
        self._parts = self._all_parts()
        self._begun_state = self._read()
        self._begun = [*self._begun_state]
        self._modules, self._builtins = KeptNames(sys.modules), KeptNames(vars(builtins))
        self._environment = dict(self._variables)
        self._own_variables: Mapping[str, str] = {}
        self._settings = _settings()

    def keep(self, own: Collection[str]) -> None:
        """Leave what the function sets up itself, by its names."""
        self._own = own

    def begin(self, folder: str, variables: Mapping[str, str]) -> None:
        """Set variables, and take all that there are as those of the calls in this folder."""
        self.folder, self._own_variables = folder, {}
        self._environ.update(variables)
        self._environment = dict(self._variables)

    def begin_call(self, variables: Mapping[str, str]) -> None:
        """Set the variables that a call has of its own."""
        self._environ.update(variables)
        self._own_variables = variables

    def stop_timers(self) -> None:
        """Stop what a call has left to interrupt this process later.

        A handler of a signal that came meanwhile may raise here: the next turn puts an end to it.
        """
        for _ in range(3):
            with suppress(Exception, SystemExit, KeyboardInterrupt):
                if not self._has_timer:
                    _signal.setitimer(_signal.ITIMER_REAL, 0)
                faulthandler.cancel_dump_traceback_later()
                return

    def is_connected(self) -> bool:
        """Return whether the child's answers still go to its agent."""
        return identity(self._replies) == self._connected

    def put_back(self, *, first: bool) -> Found:
        """Put back what calls have changed. first: the first call of the child has just ended."""
        found = Found([], [], [])
        if self._builtins.put_back(vars(builtins)):
            found.restored.append("the built-in names")
        if self._modules.put_back(sys.modules):
            found.restored.append("sys.modules")
        if (now := self._read()) != self._begun_state:
            for number, value in enumerate(now):
                if value != self._begun[number]:
                    self._mend(number, first, found)
            self._begun_state = tuple(self._begun)
        for name, value in self._own_variables.items():
            self._environment[os.fsencode(name)] = os.fsencode(value)
        if self._variables != self._environment or os.environ is not self._environ:
            self._mend_variables(first, found)
        if _settings() != self._settings:
            for number, setting in enumerate(SETTINGS):
                self._mend_setting(number, setting, first, found)
        self._look_at_threads(found)
        return found

    def exhausted(self, *, surely: bool) -> Optional[str]:
        """Return what calls have left in such a number that further ones may get none.

        surely: count all, which is otherwise done now and then.
        """
        if (threads := _count_threads()) > _MOST_THREADS:
            return f"{threads} threads"
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = self._files + min(_MORE_FILES, limit // 2 if limit > 0 else _MORE_FILES)
        self._checks += 1
        try:
            lowest = os.dup(self._error)
        except OSError:
            lowest = most
        else:
            os.close(lowest)
        if self._checks % _COUNT_EVERY and lowest < most and not surely:
            return None
        if count_files() >= most:
            for spare in self._spare:
                with suppress(OSError):  # a call has closed it
                    os.close(spare)
            return f"{count_files()} open files"
        children = _count_children()
        return f"{children} processes of its own" if children > _MOST_CHILDREN else None

    def _all_parts(self) -> Tuple[_Part, ...]:
        """Return the parts, in the order of `_read`."""
        return (
            _Part("its standard streams", self._set_streams),
            _Part("its standard descriptors", self._set_descriptors),
            _Part("its working folder", self._enter),
            _Part("sys.path", self._set_path, lasting=True),
            _Part("the importers", _set_importers, lasting=True),
            _Part("the recursion limit", lambda _: sys.setrecursionlimit(self._recursion)),
            _Part("the trace function", sys.settrace, lasting=True),
            _Part("the profile function", sys.setprofile, lasting=True),
            _Part("settings of the interpreter", _set_interpreter, lasting=True),
            _Part("the filters of warnings", self._set_filters),
            _Part("the file mode mask", os.umask, lasting=True),
            _Part("blocked signals", _set_blocked, lasting=True),
            _Part("signal handlers", _set_handlers, lasting=True),
            _Part("limits of resources", _set_limits, lasting=True),
            _Part("the locale", _set_locale, lasting=True),
            _Part("its processors", lambda was: os.sched_setaffinity(0, was), lasting=True),
            # few users may
            _Part("its priority", lambda was: os.setpriority(os.PRIO_PROCESS, 0, was), True),
            _Part("its user", None),
        )

    def _read(self) -> Tuple[Any, ...]:
        """Return the present state; one function, since it runs after each call."""
        mask = os.umask(0o077)
        os.umask(mask)
        return (
            self._are_streams_usable(),
            (identity(0), identity(1), identity(2)),
            self._is_in_folder(),
            (sys.path is self._path, sys.path[:]),
            (sys.meta_path[:], sys.path_hooks[:]),
            sys.getrecursionlimit() >= self._recursion,
            sys.gettrace(),
            sys.getprofile(),
            (gc.isenabled(), gc.get_threshold(), sys.getswitchinterval(), _most_digits()),
            warnings.filters[:],
            mask,
            _signal.pthread_sigmask(_signal.SIG_BLOCK, ()),
            [*map(_signal.getsignal, _SIGNALS)],
            [*map(resource.getrlimit, _LIMITS)],
            _locale.setlocale(_locale.LC_ALL),
            os.sched_getaffinity(0) if _HAS_AFFINITY else None,
            os.getpriority(os.PRIO_PROCESS, 0),
            (os.geteuid(), os.getegid()),
        )

    def _mend(self, number: int, first: bool, found: Found) -> None:
        """Put a part back; what cannot be put back counts as found from now on."""
        part, was = self._parts[number], self._begun[number]
        if part.lasting and part.name in self._own:
            pass
        elif part.lasting and first:
            found.lasting.append(part.name)
        else:
            with suppress(Exception):
                if part.put_back is not None:
                    part.put_back(was)
            if self._read()[number] == was:
                found.restored.append(part.name)
                return
            (found.lasting if part.lasting else found.stuck).append(part.name)
        self._begun[number] = self._read()[number]

    def _mend_variables(self, first: bool, found: Found) -> None:
        if os.environ is not self._environ:
            os.environ = self._environ  # noqa: B003 - the variables are those of this one
            found.restored.append("os.environ")
        changed = dict(self._environment.items() ^ self._variables.items())
        for name in sorted(changed):
            shown = f"{_VARIABLE}{os.fsdecode(name)}"
            if shown in self._own:
                continue
            if first:
                found.lasting.append(shown)
                continue
            found.restored.append(shown)
            if name in self._environment:
                self._environ[os.fsdecode(name)] = os.fsdecode(self._environment[name])
            else:
                del self._environ[os.fsdecode(name)]
            if name == b"TZ":
                time.tzset()
        self._environment = dict(self._variables)

    def _mend_setting(
        self, number: int, setting: LibrarySetting, first: bool, found: Found
    ) -> None:
        with suppress(Exception):
            was, now = self._settings[number], setting.value()
            if now == was:
                return
            if setting.name in self._own or first:
                self._settings[number] = now
                if setting.name not in self._own:
                    found.lasting.append(setting.name)
            else:
                setting.put_back(sys.modules[setting.module], was)
                found.restored.append(setting.name)

    def _are_streams_usable(self) -> bool:
        stdin, stdout, stderr = self._streams
        if sys.stdin is stdin and sys.stdout is stdout and sys.stderr is stderr:
            with suppress(ValueError):  # one is detached
                return not (stdin.closed or stdout.closed or stderr.closed)
        return False

    def _set_streams(self, _: Any) -> None:
        for fd, own in enumerate(self._streams):
            try:
                usable = not own.closed
            except ValueError:  # detached
                usable = False
            if not usable:
                self._streams[fd] = os.fdopen(0, closefd=False) if fd == 0 else OutputStream(fd)
        sys.stdin, sys.stdout, sys.stderr = self._streams

    def _set_descriptors(self, _: Any) -> None:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, source in ((0, nothing), (1, self._error), (2, self._error)):
            if fd != source:
                os.dup2(source, fd)
        if nothing > 2:  # noqa: PLR2004 - beyond the standard error
            os.close(nothing)
        os.set_blocking(2, True)

    def _set_path(self, was: Any) -> None:
        sys.path = self._path
        sys.path[:] = was[1]

    def _set_filters(self, was: Any) -> None:
        self._filters[:] = was
        warnings.filters = self._filters
        with warnings.catch_warnings():  # which also lets `warnings` notice the change
            pass

    def _look_at_threads(self, found: Found) -> None:
        """Note threads that calls have left, without those that are about to end."""
        until = None
        while (count := _count_threads()) > self._threads:
            if until is None:
                until = time.monotonic() + (0 if _THREADS in self._own else _THREAD_ENDS_S)
            if time.monotonic() >= until:
                if _THREADS not in self._own:
                    found.lasting.append(_THREADS)
                break
            time.sleep(0.001)
        self._threads = count

    def _is_in_folder(self) -> bool:
        try:
            return not self.folder or os.getcwd() == self.folder  # noqa: PTH109 - often
        except OSError:  # it was removed
            return False

    def _enter(self, _: Any) -> None:
        os.makedirs(self.folder, 0o700, exist_ok=True)  # noqa: PTH103
        os.chdir(self.folder)


def _count_children() -> int:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:  # noqa: PTH123 - often
            return len(file.read().split())
    except OSError:  # not every system has it
        return 0


def _settings() -> List[Any]:
    return [setting.value() for setting in SETTINGS]


def _set_importers(was: Any) -> None:
    sys.meta_path[:], sys.path_hooks[:] = was


def _most_digits() -> int:
    """Return the most digits of a whole number as text, for releases of Python with a limit."""
    return getattr(sys, "get_int_max_str_digits", int)()


def _set_interpreter(was: Any) -> None:
    enabled, threshold, interval, digits = was
    (gc.enable if enabled else gc.disable)()
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)
    getattr(sys, "set_int_max_str_digits", int)(digits)


def _set_blocked(was: Any) -> None:
    _signal.pthread_sigmask(_signal.SIG_SETMASK, was)


def _set_handlers(was: List[Any]) -> None:
    for number, handler in enumerate(was):
        if handler is not None:  # None: C code has set it
            _signal.signal(_SIGNALS[number], handler)


def _set_limits(was: List[Tuple[int, int]]) -> None:
    for number, limits in enumerate(was):
        resource.setrlimit(_LIMITS[number], limits)


def _set_locale(was: str) -> None:
    _locale.setlocale(_locale.LC_ALL, was)
