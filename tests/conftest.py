"""Fixtures of every test: a queue in a database of its own, on a real PostgreSQL.

One server serves the whole run. Anyone who needs it first starts it, be it this process or a worker
of pytest-xdist; the process that began the run stops and removes it.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import inspect
import os
import re
import signal
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import settings
from hypothesis.internal.conjecture import engine

from taskq_agent import strays
from tests.fixtures.servers import make_home, remove_home
from tests.helpers.leftovers import Leftovers

pytest_plugins = [
    "tests.fixtures.blob_stores",
    "tests.fixtures.databases",
    "tests.fixtures.logins",
    "tests.fixtures.transports",
    "tests.fixtures.queues",
    "tests.fixtures.histories",
    "tests.fixtures.redis_servers",
    "tests.fixtures.s3_servers",
    "tests.fixtures.front",  # uses the one above
]

# Without it, every process that a test starts compiles all that it imports, half of its work.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# An agent adopts orphans where it is all that its process does. One that a test runs within its own
# process is not: gateways and servers of other tests are children of that process too.
strays.adopt_orphans = lambda: None

# What nohup, or a shell in the background, ignores would be ignored by all that a test starts.
for ignored in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)

# libpq would obey them, in every test and every process that a test starts.
for variable in [name for name in os.environ if name.startswith("PG")]:
    del os.environ[variable]

HOME = pytest.StashKey[Path]()
LEFTOVERS = pytest.StashKey[Leftovers]()

# No test has a time limit but that against hangs, in pyproject.toml: other users of the machine
# would decide what passes.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# `pytest --hypothesis-profile=soak tests/property` looks for much longer.
settings.register_profile("soak", max_examples=2_000, stateful_step_count=80)
# Shrinking may last for 5 minutes by itself: as long as a test may take, so that what was found
# would end in the limit against hangs, unseen.
engine.MAX_SHRINKING_SECONDS = 45


#: Folders of tests that need programs which few have: run only where they are named.
_FEW_HAVE = (
    "browser containers deploy engines helm htcondor kubernetes pbs proxy slurm udocker vina"
)
NAMED_ONLY = frozenset(_FEW_HAVE.split())


#: What begins the marks of a module of which `make test` runs nothing.
ALL_THOROUGH = re.compile(r"^pytestmark = (\[[^]]*)?pytest\.mark\.thorough\b", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out folders of tests that were to be named, and were not, and modules without a test.

    Those are not even imported: in `make test` each of four processes would import them.
    """
    here = Path(__file__).parent
    if not collection_path.is_relative_to(here) or collection_path == here:
        return None
    if config.option.markexpr == "not thorough" and collection_path.suffix == ".py":
        return bool(ALL_THOROUGH.search(collection_path.read_text(encoding="utf-8"))) or None
    folder = here / collection_path.relative_to(here).parts[0]
    if folder.name not in NAMED_ONLY:
        return None
    asked = [config.invocation_params.dir / name.partition("::")[0] for name in config.args]
    return None if any(name.resolve().is_relative_to(folder) for name in asked) else True


#: Folders of tests that mostly compute; those of others wait for servers, and are dearer.
CHEAP = ("property", "protocol", "unit")


# Wrappers of plugins, such as pytest-randomly's, come later: the first case is always the same.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark the cases of dear tests after the first as thorough."""
    here = Path(__file__).parent
    seen = set[tuple[Path, str]]()
    for item in items:
        folder = item.path.relative_to(here).parts[0]
        if folder in CHEAP or not hasattr(item, "callspec") or item.get_closest_marker("thorough"):
            continue
        test = item.path, item.nodeid.partition("[")[0]
        if test in seen:
            item.add_marker(pytest.mark.thorough)
        seen.add(test)
    return (yield)


#: How many times as long as others tests that are marked so, and those of named folders, may take.
LONGER, MARKS = 2.5, {"longer", "thorough"}


@pytest.hookimpl(wrapper=True, trylast=True)  # within pytest's own, which begins and ends the limit
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Give some tests longer than `faulthandler_timeout`."""
    limit_s = float(item.config.getini("faulthandler_timeout") or 0)
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    marked = MARKS.intersection(mark.name for mark in item.iter_markers())
    if limit_s and (marked or folder in NAMED_ONLY):
        shown = item.config.stash[fault_handler_stderr_fd_key]
        faulthandler.dump_traceback_later(LONGER * limit_s, exit=True, file=shown)
    return (yield)


#: For how long a test that is a coroutine may run: less than the limit against hangs.
COROUTINE_S = 100.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, COROUTINE_S))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Have no garbage looked for among thousands of tests, all of which stay: it takes a sixth."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Choose where the server of this run lives."""
    # A shell that starts a job in the background has it ignore Ctrl-C, and so all that it starts;
    # what tests interrupt must hear of it.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    given = getattr(config, "workerinput", {}).get("server_home")
    config.stash[HOME] = Path(given) if given else make_home()
    config.stash[LEFTOVERS] = Leftovers(None if given else config.stash[HOME])


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where that is."""
    node.workerinput["server_home"] = str(node.config.stash[HOME])


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave nothing behind."""
    if LEFTOVERS in config.stash:
        config.stash[LEFTOVERS].end()
    if not hasattr(config, "workerinput") and HOME in config.stash:
        remove_home(config.stash[HOME])


@pytest.fixture(scope="session")
def server_home(pytestconfig: pytest.Config) -> Path:
    """Give the home of the server that all tests share."""
    return pytestconfig.stash[HOME]
