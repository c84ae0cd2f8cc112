"""Tags: requirements of campaigns, and offers of agents, which describe their nodes.

A requirement is `NAME`, `NAME=VALUE` or `NAME>=NUMBER`; an offer is `NAME` or `NAME=VALUE`. The
server matches them (`sql/functions/offered.sql`) and checks their form by the same rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from taskq.errors import InvalidCampaign, UsageError

MAX_TAGS: Final = 32

_NAME = r"[A-Za-z][A-Za-z0-9_.-]{0,62}"
_VALUE = r"[A-Za-z0-9_.+:/@-]{1,100}"
_NUMBER = r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?"

_OFFER = re.compile(f"{_NAME}(={_VALUE})?")
_REQUIREMENT = re.compile(f"{_NAME}(={_VALUE}|>={_NUMBER})?")


def check_requires(tags: object) -> tuple[str, ...]:
    """Return the requirements as a tuple; raise `InvalidCampaign` that names a wrong tag."""
    form = "NAME, NAME=VALUE or NAME>=NUMBER, as gpu, arch=a100 or mem>=16"
    try:
        return _checked("requires", tags, _REQUIREMENT, form)
    except UsageError as error:
        raise InvalidCampaign(str(error)) from None


def check_offers(tags: object) -> tuple[str, ...]:
    """Return the offers as a tuple; raise `UsageError` that names a wrong tag."""
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
