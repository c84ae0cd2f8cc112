"""Requirements of campaigns: tags that agents offer, and resources that one task needs of a node.

A required tag is `NAME`, `NAME=VALUE` or `NAME>=NUMBER`; an offer is `NAME` or `NAME=VALUE`. The
server matches them (`offered.sql`) and checks their form by the same rules.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from taskq.model.errors import InvalidCampaign, UsageError
from taskq.model.settings import ValueKind, size_text
from taskq_agent.named_resources import amount_of, checked_name, counted, named_amount
from taskq_agent.units import size_in_bytes

#: Sizes in bytes, or `learn`.
Memory: TypeAlias = "tuple[int, ...] | Literal['learn']"

MAX_TAGS: Final = 32
MAX_SIZES: Final = 8
#: The memory of a campaign that follows from what its attempts use.
LEARN: Final = "learn"
_GIB: Final = 1 << 30
MIN_GPUS: Final = 0.01
MAX_GPUS: Final = 64
#: Sizes of memory, one or several, as `memory_sizes` takes them.
MEMORY: Final = ValueKind(
    "a size such as `4G`, a list of up to 8, or `learn`",
    "SIZE",
    "sizes, such as 4G,8G, or learn",
    lambda text: text if text == LEARN else text.split(","),
)

#: Resources that are no named ones.
_RESERVED: Final = {"cores", "memory", "gpus", "gpu_memory"}

#: Options of a campaign that ask for what nodes have, by the tags that they become.
_ASKING: Final = {
    "cores": "--cores",
    "mem": "--memory",
    "gpus": "--gpus",
    "gpumem": "--gpu-memory",
}

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"
_VALUE = r"[A-Za-z0-9_.+:/@-]{1,100}"
_NUMBER = r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?"

_OFFER = re.compile(f"{_NAME}(={_VALUE})?")
_PARTS = re.compile(f"(?P<name>{_NAME})((?P<relation>>?=)(?P<value>.*))?")
_RESOURCE_TAG = re.compile(r"resource\.(?P<name>[a-z0-9_]+)>=(?P<amount>[0-9]+)")
_RESOURCE_OFFER = re.compile(r"resource\.(?P<name>[a-z0-9_]+)=(?P<amount>[0-9]+)")
_REQUIREMENT = re.compile(f"{_NAME}(={_VALUE}|>={_NUMBER})?")


def missing(requires: Sequence[str], offers: Sequence[str]) -> list[str]:
    """Return the requirements that the offers do not meet, by the rule of `offered()` in SQL."""
    return [tag for tag in requires if not any(_meets(tag, offer) for offer in offers)]


def _meets(tag: str, offer: str) -> bool:
    wanted, offered = _PARTS.fullmatch(tag), _PARTS.fullmatch(offer)
    if wanted is None or offered is None or wanted["name"] != offered["name"]:
        return False
    if wanted["relation"] is None or offered["relation"] is None:
        return wanted["relation"] is None
    numbers = [re.fullmatch(_NUMBER, side["value"]) for side in (wanted, offered)]
    if all(numbers):
        least, there = Decimal(wanted["value"]), Decimal(offered["value"])
        return there == least if wanted["relation"] == "=" else there >= least
    return wanted["relation"] == "=" and wanted["value"] == offered["value"]


def check_requires(tags: object) -> tuple[str, ...]:
    """Return the requirements as a tuple; raise `InvalidCampaign`, which names a wrong tag."""
    form = "NAME, NAME=VALUE or NAME>=NUMBER, such as gpu, arch=a100 or mem>=16"
    try:
        return _checked("requires", tags, _REQUIREMENT, form)
    except UsageError as error:
        raise InvalidCampaign(str(error)) from None


def check_offers(tags: object) -> tuple[str, ...]:
    """Return the offers as a tuple; raise `UsageError`, which names a wrong tag."""
    return _checked("offers", tags, _OFFER, "NAME or NAME=VALUE, such as gpu or mem=64")


def _checked(what: str, tags: object, pattern: re.Pattern[str], form: str) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise UsageError(f'{what} must be a list of tags, such as ["gpu"], not {tags!r:.80}')
    if len(tags) > MAX_TAGS:
        raise UsageError(f"{what} has {len(tags)} tags; {MAX_TAGS} at most")
    for tag in tags:
        if not isinstance(tag, str) or not pattern.fullmatch(tag):
            raise UsageError(f"{what}: the tag {tag!r:.80} must read {form}")
    return tuple(tags)


def gpu_count(where: str, value: object) -> float | None:
    """Return a number of GPUs, an int if it is whole; raise `InvalidCampaign` if it is not valid.

    Shares of one are multiples of a thousandth, as agents count them.
    """
    if value is None:
        return None
    if type(value) in (int, float) and MIN_GPUS <= (number := float(str(value))) <= MAX_GPUS:
        if number.is_integer():
            return int(number)
        if number < 1 and round(number, 3) == number:
            return number
    raise InvalidCampaign(
        f"{where} must be a whole number up to {MAX_GPUS}, or a share of one GPU from {MIN_GPUS} "
        f"with up to 3 digits behind the point, such as 0.25, not {value!r:.80}"
    )


def gpu_bytes(where: str, value: object) -> int | None:
    """Return the memory of a GPU in bytes; raise `InvalidCampaign` if it is not valid."""
    sizes = memory_sizes(where, value)
    if sizes == LEARN or len(sizes) > 1:
        raise InvalidCampaign(f"{where} must be a size such as 8G, not {value!r:.80}")
    return next(iter(sizes), None)


def named_amounts(where: str, value: object) -> dict[str, int]:
    """Return named resources with their amounts; raise `InvalidCampaign` if they are not valid.

    value: amounts by name, each a whole number or a size such as `20GB`; or texts `NAME=AMOUNT`.
    """
    try:
        if isinstance(value, Mapping):
            given = [(checked_name(str(name)), amount_of(str(of))) for name, of in value.items()]
        else:
            given = [named_amount(str(each)) for each in _listed(value)]
        found = counted(given)
    except (TypeError, ValueError) as error:
        raise InvalidCampaign(f"{where}: {error}") from None
    if reserved := _RESERVED.intersection(found):
        raise InvalidCampaign(f"{where}: {min(reserved)} is a setting of its own")
    return found


def _listed(value: object) -> Sequence[object]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{value!r:.80} is no table of amounts by name")
    return value


def memory_sizes(where: str, value: object) -> Memory:
    """Return sizes of memory in bytes, each larger than the one before, or `learn`.

    value: one or several, each as `4G` or in bytes; None means no sizes. Raise `InvalidCampaign` if
    it is not valid.
    """
    if value == LEARN:
        return LEARN
    if value is None:
        return ()
    given = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    try:
        sizes = tuple(size_in_bytes(str(size)) for size in given)
    except ValueError as error:
        raise InvalidCampaign(f"{where}: {error}") from None
    if len(sizes) > MAX_SIZES or any(b <= a for a, b in itertools.pairwise(sizes)):
        raise InvalidCampaign(
            f"{where} must be {MAX_SIZES} sizes at most, each larger than the one before, "
            f'such as ["4G", "8G"], not {value!r:.80}'
        )
    return sizes


def amount_text(amount: int) -> str:
    """Return the amount of a named resource for people, as an option takes it."""
    return size_text(amount)


def tag_words(tag: str) -> str:
    """Return a required tag for people; of a named resource its name and amount."""
    needed = _RESOURCE_TAG.fullmatch(tag)
    if needed is None:
        return tag
    return f"the resource {needed['name']} ({amount_text(int(needed['amount']))})"


def named_offers(offers: Sequence[str]) -> str:
    """Return the named resources among the offers of an agent, for people: `licence 2`."""
    had = filter(None, map(_RESOURCE_OFFER.fullmatch, offers))
    return "; ".join(f"{offer['name']} {amount_text(int(offer['amount']))}" for offer in had)


def offering_option(tag: str, slots: int = 1) -> tuple[str, str]:
    """Return the option of an agent that then has what a required tag is about, for its slots."""
    needed = _RESOURCE_TAG.fullmatch(tag)
    if needed is None:
        return "--offer", tag.replace(">=", "=")
    return "--resource", f"{needed['name']}={amount_text(slots * int(needed['amount']))}"


def fewer_needs(
    tags: Sequence[str], lacking: Sequence[str], offers: Sequence[Sequence[str]]
) -> list[str]:
    """Return the options of a campaign that then needs no more than some agent offers.

    tags: required tags that are no resources. lacking: requirements that nobody meets.
    """
    words = []
    for tag in [tag for tag in lacking if tag not in tags]:
        name, _, _ = tag.partition(">=")
        if name in _ASKING:
            words += [_ASKING[name], _most_offered(name, offers)]
    if set(tags) & set(lacking):
        rest = [tag for tag in tags if tag not in lacking]
        words += [word for tag in rest or [""] for word in ("--require", tag)]
    return words


def _most_offered(name: str, offers: Sequence[Sequence[str]]) -> str:
    """Return the most of a resource that an agent offers, as the option takes it, or none."""
    found = [
        Decimal(value)
        for its in offers
        for tag, _, value in (offer.partition("=") for offer in its)
        if tag == name and re.fullmatch(_NUMBER, value)
    ]
    most = max(found, default=Decimal(0))
    if most <= 0:
        return "none"
    return size_text(int(most * _GIB)) if name in {"mem", "gpumem"} else f"{most.normalize():f}"


def resources_text(
    cores: int | None,
    memory: Memory,
    gpus: float | None,
    learnt: Sequence[int] = (),
    *,
    gpu_memory: int | None = None,
    named: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """Return the needs of a task as text for people: `cores 4; memory 4G, then 8G`.

    learnt: the sizes that the campaign has learnt, if it learns them. named: named resources.
    """
    sizes = ", then ".join(map(size_text, learnt if memory == LEARN else memory))
    how = f" (learnt: {sizes or 'nothing yet'})" if memory == LEARN else ""
    parts = [
        "" if cores is None else f"cores {cores}",
        f"memory {LEARN}{how}" if how else f"memory {sizes}" if sizes else "",
        "" if gpus is None else f"GPUs {gpus:g}",
        "" if gpu_memory is None else f"GPU memory {size_text(gpu_memory)}",
        *(f"{name} {amount_text(amount)}" for name, amount in named.items()),
    ]
    return "; ".join(filter(None, parts))
