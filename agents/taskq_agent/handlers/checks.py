"""Validation of the handler of a campaign, before anything runs."""

from __future__ import annotations

import re
from typing import Any, Dict, FrozenSet, Mapping

from taskq_agent.handlers import placeholders

COMMAND = "command"
PYTHON = "python"
PROCESS = "process"
FUNCTION = "function"

_FIELDS: Dict[str, FrozenSet[str]] = {
    COMMAND: frozenset({"kind", "argv", "container"}),
    PYTHON: frozenset({"kind", "target", "prepare"}),
    PROCESS: frozenset({"kind", "argv", "container"}),
    FUNCTION: frozenset({"kind", "name", "target", "archive", "python", "seal", "fingerprint"}),
}
_HEX = re.compile("[0-9a-f]{64}")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_handler(handler: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """Raise ValueError unless tasks could run with this handler and these parameters.

    It does not check whether the program or function exists: that differs between nodes. A node
    that lacks it refuses the campaign, as `command-not-found` or `handler-not-found`, and the tasks
    stay as they are.
    """
    kind = handler.get("kind")
    if not isinstance(kind, str) or kind not in _FIELDS:
        raise ValueError(f"handler kind is {kind!r}; it must be one of {', '.join(_FIELDS)}")
    if unknown := set(handler) - _FIELDS[kind]:
        raise ValueError(
            f"a {kind} handler has no {min(unknown)!r}; it has {', '.join(sorted(_FIELDS[kind]))}"
        )
    if kind == PYTHON:
        _check_function("target", handler.get("target"))
        if handler.get("prepare") is not None:
            _check_function("prepare", handler["prepare"])
    elif kind == FUNCTION:
        _check_sent_function(handler)
    else:
        _check_argv(kind, handler.get("argv"), params)
        if "container" in handler:
            _check_container(handler["container"], params)


def _check_function(field: str, name: object) -> None:
    if not isinstance(name, str) or not _FUNCTION.fullmatch(name):
        raise ValueError(f"handler {field} is {name!r}; it must look like module:function")


def _check_sent_function(handler: Mapping[str, Any]) -> None:
    if odd := [field for field in sorted(handler) if not isinstance(handler[field], str)]:
        raise ValueError(f"handler {odd[0]} is {handler[odd[0]]!r:.80}; it must be text")
    if "target" in handler:
        _check_function("target", handler["target"])
    elif "archive" not in handler:
        raise ValueError("a function handler needs a target, an archive, or both")
    for field in ("archive", "seal"):
        if field in handler and not _HEX.fullmatch(handler[field]):
            raise ValueError(f"handler {field} must have 64 digits, 0-9 and a-f")
    if "seal" in handler and "archive" not in handler:
        raise ValueError("a function handler with a seal needs an archive")


def _check_container(image: object, params: Mapping[str, Any]) -> None:
    if not isinstance(image, str) or not image or image.startswith("-") or "\0" in image:
        raise ValueError(f"handler container is {image!r:.80}; it must be the name of an image")
    placeholders.check([image], params, per_task=False)


def _check_argv(kind: str, argv: object, params: Mapping[str, Any]) -> None:
    if not isinstance(argv, (list, tuple)) or not argv:
        raise ValueError(f"handler argv is {argv!r}; it must be a list of a program and arguments")
    for argument in argv:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"handler argv: {argument!r} is not a string without NUL")
    if not argv[0]:
        raise ValueError("handler argv: the name of the program is empty")
    placeholders.check(argv[:1], params, per_task=False)
    placeholders.check(argv[1:], params, per_task=kind == COMMAND)
