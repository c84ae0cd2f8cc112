"""Which folders and files of its node an agent binds into containers."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Dict, Iterable

from taskq_agent.binds import UNSPEAKABLE, Bind
from taskq_agent.paths import exists


class BindUnavailable(Exception):
    """This node cannot, or may not, bind what a container needs."""


def resolved(
    wanted: Iterable[Bind], site: Iterable[Bind], allowed: Iterable[Bind]
) -> Dict[str, Bind]:
    """Return the binds of a container by their paths inside; raises BindUnavailable.

    wanted: the campaign's, whose links are followed here, so that none leads out of what the site
    allows; what the site binds itself is allowed too. The campaign's comes before the site's.
    """
    site = tuple(site)
    allowed = (*allowed, *site)
    found: Dict[str, Bind] = {}
    for bind in site:
        if exists(bind.host):
            found[bind.inside] = bind
        elif not bind.optional:
            raise BindUnavailable(f"there is no {bind.host!r} on this node, as --bind asks for")
    for bind in wanted:
        real = os.path.realpath(bind.host)
        may = [its for its in allowed if _is_within(real, os.path.realpath(its.host))]
        if not any(bind.read_only or not its.read_only for its in may):
            flag = f"--allow-bind {bind.host}{'' if bind.read_only else ':rw'}"
            how = "" if bind.read_only else ", for writing"
            raise BindUnavailable(f"this agent binds no {bind.host!r}{how}, unless it has {flag}")
        if not exists(real):
            raise BindUnavailable(
                f"there is no {bind.host!r} on this node, as [handler] binds asks"
            )
        if UNSPEAKABLE & set(real):
            raise BindUnavailable(f"{real!r} cannot be bound: rename it")
        found[bind.inside] = replace(bind, host=real)
    return found


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
