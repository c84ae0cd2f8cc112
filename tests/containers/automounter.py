"""A small automounter: a folder of autofs where each name is mounted when somebody looks for it.

Started as a program in a process group of its own, whose looks mount nothing. It says "ready", and
works until its standard input ends.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
from pathlib import Path
from typing import Final

#: `struct autofs_v5_packet`: version, type, token, device, inode, ids and length, name.
_PACKET: Final = struct.Struct("=iiIIQIIIII256s4x")
_MISSING: Final = 3
#: `AUTOFS_IOC_READY`.
_READY: Final = 0x9360


def main(folder: str) -> None:
    """Serve a folder, and unmount it at the end."""
    requests, kernel = os.pipe()
    options = f"fd={kernel},pgrp={os.getpgrp()},minproto=5,maxproto=5,indirect"
    _run("mount", "-i", "-t", "autofs", "-o", options, "taskq", folder, pass_fds=[kernel])
    _run("mount", "--make-shared", folder)
    os.close(kernel)
    place = os.open(folder, os.O_RDONLY)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        while requests in select.select([requests, sys.stdin], [], [])[0]:
            _, kind, token, *_, name = _PACKET.unpack(os.read(requests, _PACKET.size))
            if kind == _MISSING:
                _mount(Path(folder) / name.rstrip(b"\0").decode())
                fcntl.ioctl(place, _READY, token)
    finally:
        os.close(place)
        _run("umount", "--recursive", "--lazy", folder)


def _mount(path: Path) -> None:
    path.mkdir(exist_ok=True)
    _run("mount", "-t", "tmpfs", "repository", str(path))
    (path / "library").write_text("mounted when somebody looked")


def _run(*words: str, pass_fds: list[int] | None = None) -> None:
    subprocess.run(words, check=True, pass_fds=pass_fds or ())


if __name__ == "__main__":
    main(sys.argv[1])
