"""Bytecode for the agent's single file: its first start under a Python leaves a copy with it.

zipimport compiles the modules of an archive in each process that imports them, which is more than
half of the instructions of an agent's start. Bytecode in the file itself would suit one Python
only, and would make the file differ from host to host. So `__pycache__` next to the file gets a
copy for each Python, as Python does for modules.

The builder puts this module next to the package: it runs before anything of the package is
imported. Without a copy an agent runs from the file itself.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import os
import stat
import sys
import zipfile
from contextlib import suppress
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import Optional

from taskq_agent.paths import exists

_FOLDER = "__pycache__"
_BY_HASH = (0b01).to_bytes(4, "little")  # PEP 552: compared with the source only if Python is asked


def importable(archive: str) -> str:
    """Return the archive to import from: the copy with bytecode; the archive if there is none.

    A copy is named by the digest of its archive and never replaced, so an agent goes on with its
    copy while the archive is replaced by another release.
    """
    try:
        return str(_copy(Path(archive).absolute()) or archive)
    except Exception:  # noqa: BLE001 - such as a full disk: it only makes the start slower
        return archive


def _copy(source: Path) -> Optional[Path]:
    tag, folder = sys.implementation.cache_tag, source.parent / _FOLDER
    if sys.flags.optimize:
        return None
    if not sys.dont_write_bytecode:
        folder.mkdir(exist_ok=True)
    status = folder.lstat()
    ours = status.st_uid in (os.geteuid(), source.stat().st_uid)
    if not (stat.S_ISDIR(status.st_mode) and ours) or status.st_mode & 0o022:
        return None  # others may write there
    content = source.read_bytes()
    copy = folder / f"{source.stem}-{hashlib.sha256(content).hexdigest()[:16]}.{tag}.pyz"
    if not exists(copy):
        if sys.dont_write_bytecode:
            return None
        _write(copy, content)
    return copy


def _write(copy: Path, content: bytes) -> None:
    """Write the copy; if another process has just written it, that one stays."""
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for name in archive.namelist():
            if name.endswith(".py"):
                text = archive.read(name)
                code = compile(text, f"{copy}/{name}", "exec", dont_inherit=True)
                head = MAGIC_NUMBER + _BY_HASH + source_hash(text)
                archive.writestr(f"{name}c", head + marshal.dumps(code))
    unfinished = copy.with_name(f".{os.getpid()}-{os.urandom(4).hex()}")
    try:
        unfinished.write_bytes(buffer.getvalue())
        with suppress(FileExistsError):
            os.link(unfinished, copy)
    finally:
        unfinished.unlink()
