"""Resources of a node that have a name and an amount, such as scratch space and licences.

An agent has them by its options, and campaigns say how much of each a start needs. Amounts are
whole numbers; sizes count bytes.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Dict, Iterable, Iterator, Mapping, Tuple

from taskq_agent.units import size_in_bytes

#: Named resources of an agent, or of a campaign.
MAX_RESOURCES = 8
#: Tags are compared as numbers of 15 digits at most.
MAX_AMOUNT = 10**15 - 1

_NUMBER = re.compile(r"[0-9]{1,15}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TAG_PREFIX = "resource."
_FORM = "a name of small letters, digits and _, 32 at most, such as scratch"


def checked_name(name: str) -> str:
    """Return the name of a resource; ValueError if it has another form."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r:.80} must be {_FORM}")
    return name


def amount_of(word: str) -> int:
    """Return an amount: a whole number such as 2, or the bytes of a size such as 200GB."""
    plain = word.strip()
    with suppress(ValueError):
        amount = int(plain) if _NUMBER.fullmatch(plain) else _whole_size(plain)
        if 1 <= amount <= MAX_AMOUNT:
            return amount
    raise ValueError(
        f"{word!r:.80} must be a whole number such as 2, or a size such as 20GB, "
        f"{MAX_AMOUNT:,} at most"
    )


def _whole_size(word: str) -> int:
    if word[-1:].isdecimal():
        raise ValueError("a part of something, without a unit")
    return size_in_bytes(word)


def named_amount(word: str) -> Tuple[str, int]:
    """Return the name and the amount of `NAME=AMOUNT`; ValueError if it has another form."""
    name, equals, amount = word.partition("=")
    if not equals:
        raise ValueError(f"{word!r:.80} must read NAME=AMOUNT, such as scratch=200GB or licence=2")
    return checked_name(name.strip()), amount_of(amount)


def counted(given: Iterable[Tuple[str, int]]) -> Dict[str, int]:
    """Return resources by name; ValueError if a name comes twice, or there are too many."""
    found: Dict[str, int] = {}
    for name, amount in given:
        if name in found:
            raise ValueError(f"the resource {name} is given twice")
        found[name] = amount
    if len(found) > MAX_RESOURCES:
        raise ValueError(f"{len(found)} named resources; {MAX_RESOURCES} at most")
    return found


def tags(named: Mapping[str, int]) -> Iterator[str]:
    """Yield the tags that an agent with these resources offers."""
    yield from (f"{_TAG_PREFIX}{name}={amount}" for name, amount in sorted(named.items()))


def is_tag(tag: str) -> bool:
    """Return whether a tag is about a named resource: users cannot give such a tag."""
    return tag.startswith(_TAG_PREFIX)


def variables(named: Mapping[str, int]) -> Dict[str, str]:
    """Return the variables from which a program learns how much it may use."""
    return {f"TASKQ_RESOURCE_{name.upper()}": str(amount) for name, amount in named.items()}
