"""Placeholders in argument lists: `{name}` becomes a value, never more than one argument.

`{name}` is a field of the payload, `{params.name}` a parameter of the campaign, `{inputs.name}` the
path of one of its inputs, `{task.key}` and `{task.attempt}` belong to the task, `{scratch}` is its
folder. `{{` and `}}` stand for braces. A string is inserted unchanged, any other value as JSON;
null counts as no value.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any, Iterable, Iterator, List, Mapping, Sequence, Set

from taskq_agent.handlers.base import Ended, failed, refused

TASK_NAMES = frozenset({"task.key", "task.attempt", "scratch"})

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PARAMS = "params."
_INPUTS = "inputs."
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


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


def check(argv: Sequence[str], params: Mapping[str, Any], *, per_task: bool) -> None:
    """Raise ValueError for a placeholder that can have no value in any task.

    per_task: whether the arguments are filled for each task, or once for all.
    """
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
            elif not per_task:
                raise ValueError(
                    f"{{{name}}} in argument {argument!r}: this argument is the same for all "
                    "tasks, so only {params.name} and {inputs.name} can stand in it"
                )
            elif name.startswith("task.") and name not in TASK_NAMES:
                raise ValueError(
                    f"{{{name}}} in argument {argument!r}: of a task there are only "
                    "{task.key} and {task.attempt}"
                )


def fill(
    argv: Sequence[str],
    *,
    params: Mapping[str, Any],
    inputs: Mapping[str, str] = _NOTHING,
    payload: Mapping[str, Any] = _NOTHING,
    task: Mapping[str, Any] = _NOTHING,
) -> List[str]:
    """Return the arguments with all placeholders replaced.

    task: values for `TASK_NAMES`. PlaceholderMissing names the first placeholder without a value.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if not name:
            return match[0][0]
        if name.startswith(_PARAMS):
            found, place = params.get(name[len(_PARAMS) :]), "the campaign's parameters"
        elif name.startswith(_INPUTS):
            found, place = inputs.get(name[len(_INPUTS) :]), "the campaign's inputs"
        elif name in TASK_NAMES:
            found, place = task.get(name), "the task"
        else:
            found, place = payload.get(name), "the payload"
        if found is None:
            raise PlaceholderMissing(
                f"the placeholder {{{name}}} has no value in {place}",
                is_input=name.startswith(_INPUTS),
            )
        return _shown(found)

    return [_TOKEN.sub(value, argument) for argument in argv]


def _names(argument: str) -> Iterator[str]:
    for match in _TOKEN.finditer(argument):
        if match[0] in ("{", "}", "{}"):
            raise ValueError(
                f"argument {argument!r}: the {match[0]!r} at character {match.start() + 1} is no "
                "placeholder; write {name}, or {{ and }} for braces"
            )
        if match[1]:
            yield match[1]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
