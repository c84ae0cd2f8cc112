"""A function as its user has sent it, by name or by value, on a node that may lack something."""

from __future__ import annotations

import hashlib
import importlib
import linecache
import pickle
import platform
import sys
import zipfile
from types import CodeType
from typing import Any, Callable, Mapping

from taskq_agent.handlers.resident import ARCHIVE
from taskq_agent.payload import input_path

FUNCTION = "function.pickle"
SOURCE = "source.txt"
_READ = 1 << 20


class CannotPrepare(Exception):
    """This node cannot call the function of the campaign."""


def missing(name: str, module: str) -> str:
    """Return the message about a module that this node lacks."""
    return (
        f"{name} needs the module {module}, which {sys.executable} on {platform.node()} lacks: "
        "install it there, run the agent with a Python that has it, or name its folder by --path"
    )


class SentArchive:
    """The input with the pickled function; its folder of modules stays importable."""

    def __init__(self, handler: Mapping[str, Any]) -> None:
        wanted, here = handler.get("python"), "{}.{}".format(*sys.version_info[:2])
        self._name = str(handler.get("name"))
        if wanted not in (None, here):
            raise CannotPrepare(
                f"{self._name} was sent by Python {wanted}, whose code Python {here} at "
                f"{sys.executable} cannot run: run the agent with Python {wanted}, or put the "
                "function into a module"
            )
        path = input_path(ARCHIVE)
        self._path = str(path)
        with path.open("rb") as file:
            digest = hashlib.sha256()
            for chunk in iter(lambda: file.read(_READ), b""):
                digest.update(chunk)
        if digest.hexdigest() != handler["archive"]:
            raise CannotPrepare(
                f"{ARCHIVE} is not the one that {self._name} was sent with: it is not unpickled"
            )
        # The pickles need the cloudpickle that wrote them, not an older one of the node.
        sys.path.insert(0, self._path)
        try:
            importlib.import_module("cloudpickle.cloudpickle")
        finally:
            sys.path.remove(self._path)

    def function(self) -> Callable[..., Any]:
        """Return the function; its source becomes known, for tracebacks."""
        with zipfile.ZipFile(self._path) as archive:
            found: Callable[..., Any] = pickle.loads(archive.read(FUNCTION))  # noqa: S301  # checked
            if SOURCE in archive.namelist():
                _show_source(found, archive.read(SOURCE).decode())
        return found


def named(target: str) -> Callable[..., Any]:
    """Return the function `module:name`; CannotPrepare if the module has none."""
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    try:
        for part in path.split("."):
            found = getattr(found, part)
    except AttributeError:
        where = getattr(found, "__file__", None) or module
        raise CannotPrepare(f"{where} has no {path}: is it the same release here?") from None
    function: Callable[..., Any] = found
    return function


def _show_source(function: Callable[..., Any], source: str) -> None:
    code = getattr(function, "__code__", None)
    if isinstance(code, CodeType):
        lines = ["\n"] * (code.co_firstlineno - 1) + source.splitlines(keepends=True)
        linecache.cache[code.co_filename] = (len(source), None, lines, code.co_filename)
