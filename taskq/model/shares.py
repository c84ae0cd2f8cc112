"""What a slot has of its node, in words: devices, and named resources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from taskq.model.requirements import amount_text

#: A UUID, of which the first part is enough for people, and for the variables that name devices.
_UUID: Final = re.compile(r"((?:GPU|MIG)-[0-9a-f]{8})-[0-9a-f]{4}(?:-[0-9a-f]{4}){2}-[0-9a-f]{12}")


def share_text(share: Mapping[str, Any] | None) -> str:
    """Return what a slot has: `GPU-8f6bdd73 (0.25), licence 1`; empty if that is nothing.

    share: devices with the part of each, and amounts of named resources, see `TaskView.share`.
    """
    if share is None:
        return ""
    devices = (
        _device(name) + ("" if part == 1 else f" ({part:g})")
        for name, part in share["devices"].items()
    )
    amounts = (f"{name} {amount_text(amount)}" for name, amount in share["resources"].items())
    return ", ".join((*devices, *amounts))


def shares_text(shares: Sequence[Mapping[str, Any]], path: str) -> str:
    """Return what slots have: `0: GPU-8f6bdd73; 1, 2: licence 1 for /c/dock`.

    path: what their agent serves, which is not repeated.
    """
    alike: dict[str, list[str]] = {}
    for share in shares:
        holder = "" if share["path"] in (None, path) else f" for {share['path']}"
        alike.setdefault(share_text(share) + holder, []).append(str(share["slot"]))
    return "; ".join(f"{', '.join(slots)}: {text}" for text, slots in alike.items())


def _device(name: str) -> str:
    whole = _UUID.fullmatch(name)
    return name if whole is None else whole[1]
