"""Handler of a campaign: the code that executes its tasks. A plain value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, fields
from functools import partial
from typing import Any, Final

from taskq.model.errors import InvalidCampaign
from taskq.model.settings import (
    CHOICE,
    FLAG,
    REQUIRED,
    TABLE,
    TEXT,
    TEXTS,
    TIME,
    WHOLE,
    YEAR_S,
    described,
    setting,
)
from taskq.model.table_checks import check_string, known_only
from taskq_agent import binds, variables
from taskq_agent.batches import MAX_BATCH

HANDLER_KINDS: Final = ("python", "command", "process", "function")
MAX_HANDLER_BYTES: Final = 65_536

_handler: Final = partial(setting, table="handler", default=None)

_OF_FUNCTIONS: Final = ("name", "archive", "python", "seal", "fingerprint", "parts")
_FIELDS_OF_OTHERS: Final = {
    "python": (("argv", "container", "binds", "line", *_OF_FUNCTIONS), "a target"),
    "command": (("target", "prepare", "tasks_per_child", *_OF_FUNCTIONS), "argv"),
    "process": (("target", "prepare", "line", *_OF_FUNCTIONS), "argv"),
    "function": (("argv", "container", "binds", "prepare", "line"), "a function to Client.map"),
}


@dataclass(frozen=True, slots=True)
class Handler:
    """The code that executes tasks on a worker node.

    `taskq.compute` makes the handlers of functions; `taskq_agent.handlers.resident` describes them.
    """

    kind: str = _handler(
        CHOICE,
        "`command`: a program for each task; `python`: a Python callable in a long-lived child "
        "process; `process`: a program that stays for many tasks and speaks JSON lines; "
        "`function`: a function that [`queue.map`](python.md) was given",
        default=REQUIRED,
        choices=HANDLER_KINDS,
    )
    _: KW_ONLY
    target: str | None = _handler(
        TEXT, "`python`, where it is required, and `function`: the callable, as `module:function`"
    )
    prepare: str | None = _handler(
        TEXT, "`python`: `module:function` that runs once in each child, before its first task"
    )
    argv: tuple[str, ...] = _handler(
        TEXTS,
        "`command` and `process`, where it is required: the program and its arguments, with "
        "placeholders; never a shell line",
        default=(),
    )
    container: str | None = _handler(
        TEXT,
        "`command` and `process`: the image in which the program is [run](handlers.md#containers)",
    )
    binds: tuple[str, ...] = _handler(
        TEXTS,
        "with `container`: what it [sees of the node](handlers.md#what-a-container-sees), as "
        "`HOST[:INSIDE][:rw]`",
        default=(),
    )
    env: Mapping[str, str] | None = _handler(
        TABLE,
        "[variables](handlers.md#variables-of-a-campaign) of the program, such as "
        '`{ OMP_PROC_BIND = "true" }`',
    )
    pass_env: tuple[str, ...] = _handler(
        TEXTS,
        "names of variables of the [agent's environment](handlers.md#variables-of-a-campaign) "
        "that the program needs",
        default=(),
    )
    tasks_per_child: int | None = _handler(
        WHOLE,
        "all kinds but `command`: the process [ends](handlers.md#what-a-call-leaves-behind) "
        "after so many tasks, and the next task gets a new one",
        low=1,
    )
    batch: int | None = _handler(
        WHOLE,
        "most tasks of one start, each with an "
        "[outcome of its own](handlers.md#many-tasks-to-one-start)",
        low=1,
        high=MAX_BATCH,
    )
    line: str | None = _handler(
        TEXT, "`command` with `batch`: what a line of the file `{list}` holds, with placeholders"
    )
    ordered: bool | None = _handler(
        FLAG, "with `batch`: whether the program takes the tasks of a start in their order"
    )
    batch_limit_s: float | None = _handler(
        TIME, "with `batch`: longest time of a start", above=0, high=YEAR_S
    )
    batch_silence_s: float | None = _handler(
        TIME, "with `batch`: longest time of a start without an outcome", above=0, high=YEAR_S
    )
    batch_divide_s: float | None = _handler(
        TIME,
        "with `batch`: longest time of the search for tasks that make the program fail",
        above=0,
        high=YEAR_S,
    )
    name: str | None = _handler(
        TEXT, "`function`, as all below, which `queue.map` writes: its name for people"
    )
    archive: str | None = _handler(
        TEXT,
        "the SHA-256 of the input with the pickled function; needs the role "
        "[`pickler`](cli.md#roles)",
    )
    python: str | None = _handler(TEXT, "the version of Python that pickled it, such as 3.11")
    seal: str | None = _handler(TEXT, "the key of the seals of pickled arguments")
    fingerprint: str | None = _handler(
        TEXT, "what the function does, as a digest that shows whether it has changed"
    )
    parts: str | None = _handler(
        TEXT, "digests of its parts with their names, a line each, which show what has changed"
    )

    def __post_init__(self) -> None:
        if self.kind not in HANDLER_KINDS:
            raise InvalidCampaign(
                f"handler.kind must be one of {', '.join(HANDLER_KINDS)}, not {self.kind!r}"
            )
        others, instead = _FIELDS_OF_OTHERS[self.kind]
        for name in others:
            if getattr(self, name):
                raise InvalidCampaign(
                    f"handler.{name} does not go with kind {self.kind!r}; give {instead}"
                )
        self._check_surroundings()
        most = self.tasks_per_child
        if most is not None and not (type(most) is int and most >= 1):
            raise InvalidCampaign(f"handler.tasks_per_child must be 1 or more, not {most!r:.80}")
        if self.kind in ("python", "function"):
            if self.kind == "python" or self.target is not None:
                _check_target("handler.target", self.target)
            if self.prepare is not None:
                _check_target("handler.prepare", self.prepare)
        else:
            _check_argv(self.argv)
            if self.container is not None:
                check_string("handler.container", self.container)
            object.__setattr__(self, "argv", tuple(self.argv))

    def _check_surroundings(self) -> None:
        """Check what the program sees of the node, and its variables."""
        if self.binds and not self.container:
            raise InvalidCampaign("handler.binds needs handler.container")
        for name in ("binds", "pass_env"):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, (list, tuple)):
                raise InvalidCampaign(f"handler.{name} must be a list of texts, not {given!r:.80}")
            object.__setattr__(self, name, tuple(given))
        _check_as("binds", lambda: [binds.of_campaign(text) for text in self.binds], self.binds)
        env = self.env or {}
        _check_as("env", lambda: variables.check_given(env), env)
        _check_as("pass_env", lambda: variables.check_passed(self.pass_env), self.pass_env)
        for name, value in env.items():
            check_string(f"handler.env.{name}", value)
        object.__setattr__(self, "env", dict(env) or None)
        if twice := set(env) & set(self.pass_env):
            raise InvalidCampaign(f"handler.env and handler.pass_env both have {min(twice)}")

    def to_json(self) -> dict[str, Any]:
        """Return the handler as a JSON object with the fields of its kind."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("argv", "binds", "pass_env"):
            given[name] = list(given[name]) or None
        return {name: value for name, value in given.items() if value is not None}

    @classmethod
    def from_json(cls, value: object, *, elsewhere: Iterable[str] = ()) -> Handler:
        """Return the handler of a JSON object; raise `InvalidCampaign` if it is not one.

        elsewhere: as of `known_only`.
        """
        table = known_only("handler", value, [part.name for part in fields(cls)], elsewhere)
        if "kind" not in table:
            raise InvalidCampaign(f"handler.kind is missing; one of {', '.join(HANDLER_KINDS)}")
        return cls(**table)


def _check_as(field: str, check: Callable[[], object], given: object) -> None:
    try:
        check()
    except ValueError as error:
        raise InvalidCampaign(f"handler.{field}: {error}") from None
    _check_size(field, given)


def _check_size(field: str, given: object) -> None:
    size = len(json.dumps(given))
    if size > MAX_HANDLER_BYTES:
        raise InvalidCampaign(f"handler.{field} of {size} bytes; {MAX_HANDLER_BYTES} at most")


def _check_target(where: str, target: object) -> None:
    if target is None:
        raise InvalidCampaign(f"{where} is missing; name a callable as module:function")
    names = target.split(":") if isinstance(target, str) else []
    if len(names) != 2 or not all(  # noqa: PLR2004  # module and function
        part.isidentifier() for name in names for part in name.split(".")
    ):
        raise InvalidCampaign(f"{where} must read module:function, not {target!r:.80}")


def _check_argv(argv: object) -> None:
    if not isinstance(argv, (list, tuple)) or not argv or argv[0] == "":
        raise InvalidCampaign(
            "handler.argv must be a list that starts with a program, such as "
            f'["vina", "--ligand", "{{ligand}}"], not {argv!r:.80}'
        )
    for position, argument in enumerate(argv):
        check_string(f"handler.argv[{position}]", argument)
    _check_size("argv", argv)


Handler.__doc__ = f"{Handler.__doc__}\n{described(Handler)}\n"
