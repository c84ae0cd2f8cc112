"""Tags: requirements of campaigns, and offers of agents, which describe their nodes.

A requirement is `NAME`, `NAME=VALUE` or `NAME>=NUMBER`; an offer is `NAME` or `NAME=VALUE`. The
server matches them (`sql/functions/offered.sql`) and checks their form by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from taskq.model.errors import InvalidCampaign, UsageError

MAX_TAGS: Final = 32

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"
_VALUE = r"[A-Za-z0-9_.+:/@-]{1,100}"
_NUMBER = r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?"

_OFFER = re.compile(f"{_NAME}(={_VALUE})?")
_PARTS = re.compile(f"(?P<name>{_NAME})((?P<relation>>?=)(?P<value>.*))?")
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
    numbers = [re.fullmatch(_NUMBER, one["value"]) for one in (wanted, offered)]
    if all(numbers):
        least, there = Decimal(wanted["value"]), Decimal(offered["value"])
        return there == least if wanted["relation"] == "=" else there >= least
    return wanted["relation"] == "=" and wanted["value"] == offered["value"]


def check_requires(tags: object) -> tuple[str, ...]:
    """Return the requirements as a tuple; raise `InvalidCampaign`, which names a wrong tag."""
    form = "NAME, NAME=VALUE or NAME>=NUMBER, as gpu, arch=a100 or mem>=16"
    try:
        return _checked("requires", tags, _REQUIREMENT, form)
    except UsageError as error:
        raise InvalidCampaign(str(error)) from None


def check_offers(tags: object) -> tuple[str, ...]:
    """Return the offers as a tuple; raise `UsageError`, which names a wrong tag."""
    return _checked("offers", tags, _OFFER, "NAME or NAME=VALUE, as gpu or mem=64")


def _checked(what: str, tags: object, pattern: re.Pattern[str], form: str) -> tuple[str, ...]:
    if isinstance(tags, str) or not isinstance(tags, Sequence):
        raise UsageError(f'{what} must be a list of tags, as ["gpu"], not {tags!r:.80}')
    if len(tags) > MAX_TAGS:
        raise UsageError(f"{what} has {len(tags)} tags; {MAX_TAGS} at most")
    for tag in tags:
        if not isinstance(tag, str) or not pattern.fullmatch(tag):
            raise UsageError(f"{what}: the tag {tag!r:.80} must read {form}")
    return tuple(tags)
