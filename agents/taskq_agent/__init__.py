"""Agent on a worker node: standard library only, Python 3.9 and later.

Payload code imports from here: four exceptions that say how an attempt ended, `input_path`,
`checkpoint_path`, `output_path` and `progress`.
"""

from __future__ import annotations

# Nothing is imported with the package: see `import_path`. Type checkers know this name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from taskq_agent.errors import Continue, FailForGood, HandlerError, NodeBroken, Retry
    from taskq_agent.payload import checkpoint_path, input_path, output_path, progress

__all__ = [
    "Continue",
    "FailForGood",
    "HandlerError",
    "NodeBroken",
    "Retry",
    "checkpoint_path",
    "input_path",
    "output_path",
    "progress",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from taskq_agent import errors, payload  # noqa: PLC0415 - see above

    found = getattr(payload, name, None) or getattr(errors, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
