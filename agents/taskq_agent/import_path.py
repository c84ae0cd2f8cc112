"""Order of the folders in which this process finds modules: those of its Python come first.

A node's PYTHONPATH, and the folder in which an agent is started, may hold an old `typing.py` or
`queue.py`. Python would take it for the one of the standard library.

This module runs before all others, so it imports nothing but what Python itself needs to start.
"""

from __future__ import annotations

import os
import sys

_STANDARD = os.path.dirname(os.__file__)  # noqa: PTH120 - pathlib may be another one
# Python 3.9 does not know its names: what it has imported by then stays.
_NAMES: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset())


def put_own_first() -> list[str]:
    """Move the folders of PYTHONPATH and the working folder to the end; return the path as it was.

    What is found only there, such as this package, is still found.
    """
    before = sys.path[:]
    given = os.environ.get("PYTHONPATH")
    late = {_whole(folder) for folder in given.split(os.pathsep)} if given else set()
    late.add(_whole(""))
    late -= {_STANDARD, os.path.join(_STANDARD, "lib-dynload")}  # noqa: PTH118 - as above
    moved = [folder for folder in before if _whole(folder) in late]
    if moved:
        sys.path[:] = [folder for folder in before if _whole(folder) not in late]
        sys.path += moved
        _forget_modules_in(late)
    return before


def _forget_modules_in(folders: set[str]) -> None:
    """Make Python import modules of its own again that it has taken from elsewhere."""
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None) if name in _NAMES else None
        if file and _whole(f"{file}/{'../..' if hasattr(module, '__path__') else '..'}") in folders:
            del sys.modules[name]


def _whole(path: str) -> str:
    try:
        return os.path.abspath(path)  # noqa: PTH100 - pathlib may be another one
    except OSError:  # the working folder is gone
        return path
