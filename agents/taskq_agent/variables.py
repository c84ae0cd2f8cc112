"""Names of environment variables: which payload code never gets, and which campaigns may set."""

from __future__ import annotations

import re
from typing import Mapping, Sequence

# The agent's own settings and libpq's, which hold secrets; PGI belongs to a compiler.
_WITHHELD = re.compile(r"TASKQ_\w*|PG(?!I$)[A-Z]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What an agent sets itself, and no campaign can take from another task: devices and a folder.
_SET = frozenset({"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "TMPDIR"})


def is_withheld(name: str) -> bool:
    """Return whether payload code must not see the agent's variable of this name."""
    return _WITHHELD.fullmatch(name) is not None


def check_name(name: object) -> None:
    """Raise ValueError unless a campaign may set, or ask for, a variable of this name."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.80} is no name of a variable, such as OE_LICENSE")
    if is_withheld(name) or name in _SET:
        raise ValueError(f"{name} is set, or withheld, by the agent itself")


def check_given(env: object) -> None:
    """Raise ValueError unless a campaign may set these variables."""
    if not isinstance(env, Mapping):
        raise ValueError(f"{env!r:.80} is no table of variables")  # noqa: TRY004
    for name, value in env.items():
        check_name(name)
        if not isinstance(value, str):
            raise ValueError(f"the value of {name} is {value!r:.80}; put it in quotes")  # noqa: TRY004
        check_value(name, value)


def check_value(name: str, value: str) -> None:
    """Raise ValueError unless all runtimes of containers can pass this value."""
    if {"\0", "\n", "\r"} & set(value):
        raise ValueError(f"the value of {name} has more than one line")


def check_passed(names: object) -> None:
    """Raise ValueError unless a campaign may ask for these variables of the agent."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"{names!r:.80} is no list of names of variables")  # noqa: TRY004
    for name in names:
        check_name(name)
