"""Write the server's configuration.

All of it is outside the data directory, where only PostgreSQL writes; the server's command line
names it. initdb's settings for the machine come first, then taskq's, then the user's: a later line
wins.
"""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path
from typing import Final

from taskq.embedded.account import ROOT_UID, Account, user_name
from taskq.embedded.home import Home, make_directory, write_file
from taskq.embedded.reserve import MIB, disk_bytes
from taskq_agent.paths import exists

ROLE: Final = "taskq"
SHARED_BUFFERS_MIB: Final = (128, 1024)
LOG_MIB: Final = (64, 4096)
LEAST_SORT_MIB: Final = 256
CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

_MAIN: Final = """\
# Written by taskq at each start. Settings of your own belong into user.conf, which stays.
include {initdb_conf}
hba_file = {hba_file}
ident_file = {ident_file}
cluster_name = 'taskq'
taskq.embedded = on
listen_addresses = ''
unix_socket_directories = {socket_dir}
max_connections = 300
shared_buffers = '{shared_buffers_mib}MB'
max_wal_size = '{log_mib}MB'
min_wal_size = '32MB'
temp_file_limit = '{sort_mib}MB'
checkpoint_timeout = '15min'
checkpoint_completion_target = 0.9
random_page_cost = 1.1
jit = off
track_io_timing = on
recovery_init_sync_method = {sync_method}
timezone = 'UTC'
log_timezone = 'UTC'
# logind removes a user's other shared memory when that user logs out.
dynamic_shared_memory_type = mmap
include_if_exists {user_conf}
"""

_HBA: Final = """\
# Written by taskq at each start. By socket: who the kernel says you are; by TCP: a password.
local  all          all                peer map=taskq
local  replication  all                peer map=taskq
host   all          all  127.0.0.1/32  scram-sha-256
host   all          all  ::1/128       scram-sha-256
"""

_USER: Final = """\
# PostgreSQL settings of your own, for the next start: they win over taskq's. Example:
# shared_buffers = '4GB'
"""


def write_settings(home: Home, account: Account, socket_dir: Path) -> Path:
    """Write the configuration and return its main file; the user's file is never rewritten."""
    mode = 0o644 if account.is_other else 0o600
    make_directory(home.conf, 0o755 if account.is_other else 0o700)
    main, hba, ident, user = (
        home.conf / name
        for name in ("postgresql.conf", "pg_hba.conf", "pg_ident.conf", "user.conf")
    )
    if not exists(user):
        write_file(user, _USER, mode)
    write_file(hba, _HBA, mode)
    write_file(ident, _ident(account), mode)
    text = _MAIN.format(
        initdb_conf=quoted(os.fspath(home.data / "postgresql.conf")),
        hba_file=quoted(os.fspath(hba)),
        ident_file=quoted(os.fspath(ident)),
        socket_dir=quoted(_list_item(os.fspath(socket_dir))),
        shared_buffers_mib=shared_buffers_mib(memory_bytes()),
        log_mib=log_mib(disk_bytes(home.path)),
        sort_mib=sort_mib(disk_bytes(home.path)),
        sync_method=sync_method(),
        user_conf=quoted(os.fspath(user)),
    )
    write_file(main, text, mode)
    return main


def quoted(value: str) -> str:
    """Return a value for postgresql.conf: one line, in single quotes."""
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n")
    return f"'{escaped}'"


def shared_buffers_mib(memory: int) -> int:
    """Return an eighth of the memory (in bytes), as MiB within modest bounds."""
    low, high = SHARED_BUFFERS_MIB
    return max(low, min(high, memory // 8 // MIB))


def log_mib(disk: int) -> int:
    """Return how long the log grows between checkpoints, as MiB: a tenth of the disk (in bytes).

    A full disk stops PostgreSQL in the midst of its log; 4 GiB pay where there is room for them.
    """
    low, high = LOG_MIB
    return max(low, min(high, disk // 10 // MIB))


def sort_mib(disk: int) -> int:
    """Return how much a session may put into files of sorts, as MiB: a quarter of the disk."""
    return max(LEAST_SORT_MIB, disk // 4 // MIB)


def memory_bytes() -> int:
    """Return the machine's memory, or the container's if that is less."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # absent, or the word "max"
            memory = min(memory, int(limit.read_text()))
    return memory


def sync_method() -> str:
    """Return how to make a whole data directory durable, after initdb and before recovery.

    One `syncfs` takes a fraction of the time of an fsync per file, but reports a failed write only
    since Linux 5.8.
    """
    major, minor = (int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
    return "syncfs" if (major, minor) >= (5, 8) else "fsync"


def _ident(account: Account) -> str:
    """Map the server's user and root to the owning role."""
    users = sorted({account.name, user_name(ROOT_UID)})
    lines = (f'taskq "{user.replace(chr(34), chr(34) * 2)}" {ROLE}\n' for user in users)
    return "# Written by taskq at each start: map, user of the system, role.\n" + "".join(lines)


def _list_item(path: str) -> str:
    """Return a path as one element of a comma-separated list."""
    return '"' + path.replace('"', '""') + '"'
