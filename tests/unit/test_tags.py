"""Tags as values."""

from __future__ import annotations

import pytest

from taskq.model.errors import InvalidCampaign, UsageError
from taskq.model.requirements import MAX_TAGS, check_offers, check_requires


def test_well_formed_tags_come_back_as_they_are() -> None:
    """In their order, from any sequence."""
    required = ["gpu", "arch=sm_90", "mem>=16", "load>=-0.5", "os-release=v1.2+deb/12"]
    assert check_requires(required) == tuple(required)
    assert check_offers(("gpu", "mem=64", "n" * 63)) == ("gpu", "mem=64", "n" * 63)
    assert check_requires([]) == check_offers(()) == ()


@pytest.mark.parametrize(
    "tag",
    [
        "",
        " gpu",
        "gpu ",
        "1gpu",
        "_x",
        "n" * 64,
        "a=",
        "a=b c",
        "a==b",
        "a>1",
        "a=1\n",
        "ä",
        3,
        None,
        "a=" + "v" * 101,
    ],
)
def test_tag_that_is_not_well_formed_is_named(tag: object) -> None:
    """With what is right."""
    with pytest.raises(InvalidCampaign, match=r"requires: the tag .* must read NAME, NAME=VALUE"):
        check_requires(["gpu", tag])
    with pytest.raises(UsageError, match=r"offers: the tag .* must read NAME or NAME=VALUE"):
        check_offers([tag])


@pytest.mark.parametrize("tag", ["mem>=", "mem>=much", "mem>=1e9", "mem>=1.", "mem>=.5", "m>=inf"])
def test_least_value_is_a_plain_number(tag: str) -> None:
    """As people write it: no exponent, digits on both sides of the point."""
    with pytest.raises(InvalidCampaign, match="NAME>=NUMBER"):
        check_requires([tag])


def test_an_offer_is_a_fact_not_a_condition() -> None:
    """A node has 64, not 64 or more."""
    with pytest.raises(UsageError, match="mem>=64"):
        check_offers(["mem>=64"])


@pytest.mark.parametrize("tags", ["gpu", 3, None, {"gpu": 1}])
def test_tags_are_a_list(tags: object) -> None:
    """A single text is a slip: it would be taken letter by letter."""
    with pytest.raises(InvalidCampaign, match="requires must be a list of tags"):
        check_requires(tags)


def test_number_of_tags_is_bounded() -> None:
    """A claim compares each with each."""
    most = [f"t{n}" for n in range(MAX_TAGS)]
    assert check_requires(most) == tuple(most)
    with pytest.raises(UsageError, match="offers has 33 tags; 32 at most"):
        check_offers([*most, "more"])
