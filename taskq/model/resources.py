"""Resources: what one task of a campaign needs of the node that it runs on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from taskq.model.errors import InvalidCampaign
from taskq_agent.text import size_in_bytes

RESOURCES: Final = ("cores", "memory", "gpus")
MAX_CORES: Final = 4_096
MAX_GPUS: Final = 64
MAX_SIZES: Final = 8

_UNITS: Final = "TGMK"


def check_count(name: str, value: object, most: int) -> None:
    """Raise `InvalidCampaign` unless this is a whole number from 1, or None."""
    if value is not None and (type(value) is not int or not 1 <= value <= most):
        raise InvalidCampaign(
            f"resources.{name} must be a whole number from 1 to {most:,}, not {value!r:.80}"
        )


def memory_sizes(value: object) -> tuple[int, ...]:
    """Return sizes of memory in bytes, each larger than the one before.

    value: one or several, each as `4G` or in bytes; None means no sizes. Raise `InvalidCampaign` if
    it is not valid.
    """
    if value is None:
        return ()
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    try:
        sizes = tuple(size_in_bytes(str(one)) for one in given)
    except ValueError as error:
        raise InvalidCampaign(f"resources.memory: {error}") from None
    if len(sizes) > MAX_SIZES or any(b <= a for a, b in itertools.pairwise(sizes)):
        raise InvalidCampaign(
            f"resources.memory must be {MAX_SIZES} sizes at most, each larger than the one before, "
            f'as ["4G", "8G"], not {value!r:.80}'
        )
    return sizes


def size_text(size: int) -> str:
    """Return a size as `memory_sizes` takes it: `4G`, or bytes if there is no shorter text."""
    for power, unit in zip((40, 30, 20, 10), _UNITS, strict=True):
        if size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)


def resources_text(cores: int | None, memory: Sequence[int], gpus: int | None) -> str:
    """Return the needs of a task as text for people: `cores 4; memory 4G, then 8G`."""
    parts = [
        "" if cores is None else f"cores {cores}",
        f"memory {', then '.join(map(size_text, memory))}" if memory else "",
        "" if gpus is None else f"GPUs {gpus}",
    ]
    return "; ".join(filter(None, parts))


def resources_to_json(cores: int | None, memory: Sequence[int], gpus: int | None) -> dict[str, Any]:
    """Return the resources in the shape of a campaign file."""
    return {"cores": cores, "memory": list(map(size_text, memory)), "gpus": gpus}
