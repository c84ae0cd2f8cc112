"""Definition of a campaign's handler: its fields, and the placeholders in its arguments.

`{name}` becomes a value, never more than one argument: a field of the payload. `{params.name}` is a
parameter of the campaign, `{inputs.name}` the path of one of its inputs, `{task.key}` and
`{task.attempt}` belong to the task, `{scratch}` is its folder. `{{` and `}}` stand for braces. A
string is inserted unchanged, any other value as JSON; null counts as no value.

A command for many tasks has `{tasks}` and `{list}` instead, which are files. The template `line` of
the latter's lines may hold what is a task's, and its number in the start, `{task.n}`.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Sequence, Set

from taskq_agent import binds, variables
from taskq_agent.batches import MAX_BATCH
from taskq_agent.handlers.base import Ended, failed, refused

COMMAND = "command"
PYTHON = "python"
PROCESS = "process"
FUNCTION = "function"

#: Fields of handlers that have `batch`. Of these, seconds:
_BATCH_TIMES = ("batch_limit_s", "batch_silence_s", "batch_divide_s")
_OF_BATCHES = ("batch", "ordered", *_BATCH_TIMES)
#: Fields about containers, and about environment variables.
_BOXED = ("container", "binds")
_VARIABLES = ("env", "pass_env")

_FIELDS: Dict[str, FrozenSet[str]] = {
    COMMAND: frozenset({"kind", "argv", "line", *_BOXED, *_VARIABLES, *_OF_BATCHES}),
    PYTHON: frozenset({"kind", "target", "prepare", "tasks_per_child", *_VARIABLES, *_OF_BATCHES}),
    PROCESS: frozenset({"kind", "argv", "tasks_per_child", *_BOXED, *_VARIABLES, *_OF_BATCHES}),
    FUNCTION: frozenset(
        {
            *("kind", "name", "target", "archive", "python", "seal", "fingerprint", "parts"),
            *("tasks_per_child", *_VARIABLES, *_OF_BATCHES),
        }
    ),
}
_HEX = re.compile("[0-9a-f]{64}")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")

TASK_NAMES = frozenset({"task.key", "task.attempt", "scratch"})
LINE_NAMES = TASK_NAMES | {"task.n"}
BATCH_NAMES = frozenset({"tasks", "list", "scratch"})

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PARAMS = "params."
_INPUTS = "inputs."
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


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
    most = handler.get("tasks_per_child")
    if most is not None and not (type(most) is int and most >= 1):
        raise ValueError(f"handler tasks_per_child is {most!r:.80}; it must be 1 or more")
    _check_batch(handler, params)
    _check_variables(handler, params)
    if kind == PYTHON:
        _check_function("target", handler.get("target"))
        if handler.get("prepare") is not None:
            _check_function("prepare", handler["prepare"])
    elif kind == FUNCTION:
        _check_sent_function(handler)
    else:
        _check_argv(handler, params)
        if "container" in handler:
            _check_container(handler["container"], params)
        _check_binds(handler)


def _check_batch(handler: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    batch = handler.get("batch")
    if batch is None:
        if given := [field for field in (*_OF_BATCHES, "line") if handler.get(field) is not None]:
            raise ValueError(f"handler {given[0]} needs handler batch, the most tasks of a start")
        return
    if type(batch) is not int or not 1 <= batch <= MAX_BATCH:
        raise ValueError(f"handler batch is {batch!r:.80}; it must be 1 to {MAX_BATCH}")
    if handler.get("ordered") not in (None, True, False):
        raise ValueError(f"handler ordered is {handler['ordered']!r:.80}; it must be true or false")
    for name in _BATCH_TIMES:
        value = handler.get(name)
        if value is not None and (type(value) not in (int, float) or not value > 0):
            raise ValueError(f"handler {name} is {value!r:.80}; it must be seconds above 0")
    if handler.get("line") is not None:
        check_line(handler["line"], params)


def check_line(line: object, params: Mapping[str, Any]) -> None:
    """Raise ValueError unless this can be the template of the lines of `{list}`."""
    if not isinstance(line, str) or not line or not line.isprintable():
        raise ValueError(f"handler line is {line!r:.80}; it must be one line of text")
    check_placeholders([line], params, names=LINE_NAMES)


def _check_function(field: str, name: object) -> None:
    if not isinstance(name, str) or not _FUNCTION.fullmatch(name):
        raise ValueError(f"handler {field} is {name!r}; it must look like module:function")


def _check_sent_function(handler: Mapping[str, Any]) -> None:
    texts = _FIELDS[FUNCTION] - {"tasks_per_child", *_VARIABLES, *_OF_BATCHES}
    if odd := [
        field for field in sorted(texts & set(handler)) if not isinstance(handler[field], str)
    ]:
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
    check_placeholders([image], params)


def _check_binds(handler: Mapping[str, Any]) -> None:
    texts = handler.get("binds")
    if texts is None:
        return
    if not isinstance(texts, (list, tuple)):
        raise ValueError(f"handler binds is {texts!r:.80}; it must be a list of texts")  # noqa: TRY004
    if "container" not in handler:
        raise ValueError("handler binds needs handler container")
    for text in texts:
        binds.of_campaign(text)


def _check_variables(handler: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    given = handler.get("env") or {}
    variables.check_given(given)
    variables.check_passed(handler.get("pass_env") or ())
    check_placeholders([*given.values()], params)
    if twice := set(given) & set(handler.get("pass_env") or ()):
        raise ValueError(f"{min(twice)} stands in handler env and in handler pass_env")


def names_in(handler: Mapping[str, Any]) -> FrozenSet[str]:
    """Return what may stand in a program's arguments, apart from fields of payloads."""
    if handler["kind"] != COMMAND:
        return frozenset()
    return TASK_NAMES if handler.get("batch") is None else BATCH_NAMES


def _check_argv(handler: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    argv = handler.get("argv")
    if not isinstance(argv, (list, tuple)) or not argv:
        raise ValueError(f"handler argv is {argv!r}; it must be a list of a program and arguments")
    for argument in argv:
        if not isinstance(argument, str) or "\0" in argument:
            raise ValueError(f"handler argv: {argument!r} is not a string without NUL")
    if not argv[0]:
        raise ValueError("handler argv: the name of the program is empty")
    check_placeholders(argv[:1], params)
    check_placeholders(argv[1:], params, names=names_in(handler))


class PlaceholderMissing(ValueError):
    """A placeholder has no value. is_input: the campaign is at fault, not a task."""

    def __init__(self, text: str, *, is_input: bool) -> None:
        super().__init__(text)
        self.is_input = is_input

    def ended(self) -> Ended:
        """Return how the attempt ends: a campaign without an input is refused, a task fails."""
        if self.is_input:
            return refused("no-such-input", f"{self}: `taskq input add` gives it one")
        return failed("placeholder-missing", str(self), retry=False)


def inputs_of(argv: Iterable[str]) -> Set[str]:
    """Return the names of the campaign's inputs that occur in arguments."""
    names = {name for argument in argv for name in _names(argument)}
    return {name[len(_INPUTS) :] for name in names if name.startswith(_INPUTS)}


def payload_fields(handler: Mapping[str, Any]) -> Set[str]:
    """Return the names of the payload's fields that a command's arguments, or its lines, name."""
    texts = handler["argv"] if handler.get("batch") is None else [handler.get("line") or ""]
    names = {name for text in texts for name in _names(text)} - LINE_NAMES
    return {name for name in names if not name.startswith((_PARAMS, _INPUTS))}


def check_placeholders(
    argv: Sequence[str], params: Mapping[str, Any], *, names: FrozenSet[str] = frozenset()
) -> None:
    """Raise ValueError for a placeholder that can have no value.

    names: those that have one. With a name of a task among them the arguments are filled for each
    task, so that fields of the payload have one too.
    """
    per_task = "task.key" in names
    for argument in argv:
        for name in _names(argument):
            if name.startswith(_PARAMS):
                if params.get(name[len(_PARAMS) :]) is None:
                    raise ValueError(
                        f"{{{name}}} in argument {argument!r}: the campaign's parameters have no "
                        f"value for {name[len(_PARAMS) :]!r}"
                    )
            elif name.startswith(_INPUTS):
                continue  # they come and go
            elif not per_task and name not in names:
                known = "".join(f"{{{possible}}}, " for possible in sorted(names))
                raise ValueError(
                    f"{{{name}}} in argument {argument!r}: this argument is the same for all "
                    f"tasks, so only {known}{{params.name}} and {{inputs.name}} can stand in it"
                )
            elif name.startswith("task.") and name not in names:
                known = " and ".join(
                    f"{{{possible}}}" for possible in sorted(names) if "task." in possible
                )
                raise ValueError(f"{{{name}}} in argument {argument!r}: a task has only {known}")


def fill(
    argv: Sequence[str],
    *,
    params: Mapping[str, Any],
    inputs: Mapping[str, str] = _NOTHING,
    payload: Mapping[str, Any] = _NOTHING,
    task: Mapping[str, Any] = _NOTHING,
) -> List[str]:
    """Return the arguments with all placeholders replaced.

    task: values of names that are not fields of the payload. PlaceholderMissing names the first
    placeholder without a value.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not name:
            return match[0][0]
        if name.startswith(_PARAMS):
            found, place = params.get(name[len(_PARAMS) :]), "the campaign's parameters"
        elif name.startswith(_INPUTS):
            found, place = inputs.get(name[len(_INPUTS) :]), "the campaign's inputs"
        elif name in task:
            found, place = task[name], "the task"
        else:
            found, place = payload.get(name), "the payload"
        if found is None:
            raise PlaceholderMissing(
                f"the placeholder {{{name}}} has no value in {place}",
                is_input=name.startswith(_INPUTS),
            )
        return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))

    return [_TOKEN.sub(value, argument) for argument in argv]


def _names(argument: str) -> Iterator[str]:
    for match in _TOKEN.finditer(argument):
        if match[0] in ("{", "}", "{}"):
            raise ValueError(
                f"argument {argument!r}: the {match[0]!r} at character {match.start() + 1} is not "
                "a placeholder; write {name}, or {{ and }} for braces"
            )
        if match[1]:
            yield match[1]
