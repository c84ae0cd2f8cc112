"""Create the data directory atomically, or check the existing one."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Final

from taskq.embedded.account import Account
from taskq.embedded.home import Home, write_file
from taskq.embedded.installation import Installation
from taskq.embedded.settings import ROLE, sync_method
from taskq.model.errors import ServerUnsuitable, TaskqError, Unavailable
from taskq_agent.paths import exists

DATABASE: Final = "taskq"
STAGING_PREFIX: Final = "data.unfinished."
INITDB_TIMEOUT_S: Final = 300.0
#: Where the manual has the steps for data of an older major version.
CARRYING_OVER: Final = "docs/restoring.md, An older PostgreSQL under an embedded queue"


def ensure_cluster(home: Home, account: Account, installation: Installation) -> None:
    """Make the home's data directory with the role and the database `taskq` in it.

    An existing directory is kept if this installation can run it. A new one appears complete; the
    leftovers of an interrupted call are removed. The caller holds the lock.
    """
    for leftover in home.path.glob(f"{STAGING_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        major = (home.data / "PG_VERSION").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        _create(home, account, installation)
        return
    if major != str(installation.version):
        raise ServerUnsuitable(
            f"{home.data} was made by PostgreSQL {major}, but {installation.bin_dir} holds "
            f"{installation.version_text}, which cannot read it; nothing was changed. "
            + _ways_out(major, installation)
        )


def _ways_out(major: str, installation: Installation) -> str:
    """Return what to do about data of another major version."""
    programs = f"set TASKQ_PG_BIN to the programs of PostgreSQL {major}"
    if major.isdecimal() and int(major) > installation.version:
        return (
            f"Older programs never can: {programs}; if it is set to older ones, unset it, or "
            f"install those of {major} again"
        )
    return f"To go on as before, {programs}; to carry the data over, follow {CARRYING_OVER}"


def _create(home: Home, account: Account, installation: Installation) -> None:
    if exists(home.data) and any(home.data.iterdir()):
        raise ServerUnsuitable(
            f"{home.data} is not empty and no data directory of PostgreSQL: move it away, or set "
            "TASKQ_HOME to a new directory"
        )
    # A new name each time: the initdb of a killed call may still be writing, by path.
    staging = Path(tempfile.mkdtemp(prefix=STAGING_PREFIX, dir=home.path))
    staged = staging / "data"
    password = secrets.token_hex(32)
    try:
        _stage(staged, account, installation, password)
        write_file(home.password, f"{password}\n", 0o600)
        staged.rename(home.data)
        _sync_directory(home.path)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _stage(staged: Path, account: Account, installation: Installation, password: str) -> None:
    password_file = staged.with_name("password")
    write_file(password_file, f"{password}\n", 0o600)
    if account.is_other:
        for path in (password_file, staged.parent):
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
    # PostgreSQL's built-in provider sorts alike on every host and after every upgrade of the C
    # library, so indexes stay valid.
    since_17 = (
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        f"--sync-method={sync_method()}",
    )
    initdb = (
        installation.bin_dir / "initdb",
        f"--pgdata={staged}",
        f"--username={ROLE}",
        "--encoding=UTF8",
        "--locale=C",
        *(since_17 if installation.version >= 17 else ()),  # noqa: PLR2004 - as its name says
        "--data-checksums",
        "--auth-local=peer",
        "--auth-host=scram-sha-256",
        f"--pwfile={password_file}",
    )
    # In single-user mode no other process can connect before the database exists.
    single = (
        installation.bin_dir / "postgres",
        "--single",
        *("-D", staged),
        "--exit_on_error=on",
        "--log_checkpoints=off",
        "template1",
    )
    # initdb asks its neighbour for the version through a shell, in double quotes.
    if set('"$`\\') & set(str(installation.bin_dir)):
        raise ServerUnsuitable(
            f"the PostgreSQL programs lie in {installation.bin_dir}, a name that initdb's own "
            'shell would not take as it stands: use folders without any of "$`\\ '
            "(TASKQ_HOME, or TASKQ_PG_BIN for the programs)"
        )
    for args, stdin in ((initdb, ""), (single, f"create database {DATABASE}\n")):
        outcome = account.run(args, stdin=stdin, timeout_s=INITDB_TIMEOUT_S)
        if outcome.returncode != 0:
            raise _creation_error(staged.parents[1], outcome.stdout)


def _creation_error(home: Path, output: str) -> TaskqError:
    said = "\n  ".join(output.strip().splitlines()[-6:])
    advice = (
        "free some space, or set TASKQ_HOME to a directory on another file system"
        if "No space left" in output or "quota exceeded" in output
        else "set TASKQ_HOME to another directory, or name a server with --dsn"
    )
    return Unavailable(
        f"no data directory could be made in {home}: {advice}. initdb said:\n  {said}"
    )


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
