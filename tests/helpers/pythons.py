"""The minor releases of CPython that are installed here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

OLDEST = (3, 9)

_SAYS = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2])"


@cache
def pythons() -> dict[str, str]:
    """Return a CPython of each minor release that the agent supports, by release; ours is one."""
    found = {".".join(map(str, sys.version_info[:2])): sys.executable}
    for path in _candidates():
        said = subprocess.run(
            [path, "-c", _SAYS], capture_output=True, text=True, timeout=60, check=False
        ).stdout.split()
        if len(said) == 2 and said[0] == "cpython" and _number(said[1]) >= OLDEST:
            found.setdefault(said[1], path)
    return dict(sorted(found.items(), key=lambda item: _number(item[0])))


def _candidates() -> list[str]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = [version / "bin" for version in _entries(root / "versions")]
    return [
        str(path)
        for folder in (*installed, *map(Path, os.get_exec_path()))
        if "shims" not in folder.parts
        for path in _entries(folder)
        if re.fullmatch(r"python3\.\d+", path.name) and shutil.which(path)
    ]


def _entries(folder: Path) -> list[Path]:
    """Return the content of a folder; nothing if it cannot be read: PATH may be of another user."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
