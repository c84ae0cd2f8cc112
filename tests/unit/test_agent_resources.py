"""Resources and tags that an agent has and offers."""

from __future__ import annotations

import os

import pytest

from taskq.model.errors import InvalidCampaign, UsageError
from taskq.model.requirements import MAX_TAGS, check_offers, check_requires
from taskq_agent import resources
from taskq_agent.named_resources import MAX_AMOUNT as MOST
from taskq_agent.named_resources import MAX_RESOURCES, named_amount
from taskq_agent.resources import Resources
from taskq_agent.units import in_bytes, size_in_bytes

GIB = 1 << 30


@pytest.mark.parametrize(
    ("word", "size"),
    [("1", 1), ("512M", 512 << 20), ("4G", 4 * GIB), ("4 GiB", 4 * GIB), ("1.5T", 1536 * GIB)],
)
def test_size_is_in_powers_of_1024(word: str, size: int) -> None:
    assert size_in_bytes(word) == size


@pytest.mark.parametrize("word", ["", "0", "-1G", "4X", "nan", "1e3", "9999999T", "4G 8G", "\0"])
def test_malformed_size_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="size"):
        size_in_bytes(word)


def test_sizes_in_words() -> None:
    words = [in_bytes(size) for size in (0, 900, 1536, 300 << 20, 4 * GIB, 5 << 40)]
    assert words == ["0 bytes", "900 bytes", "1.5 KiB", "300 MiB", "4 GiB", "5 TiB"]


def test_batch_system_and_affinity_say_what_an_agent_has() -> None:
    """The smallest given value counts."""
    environment = {"SLURM_CPUS_ON_NODE": "1", "SLURM_MEM_PER_CPU": "100"}
    found = resources.found({**environment, "CUDA_VISIBLE_DEVICES": "2, GPU-7"})
    assert (found.count, found.memory, found.gpus) == (1, 100 << 20, ("2", "GPU-7"))
    assert resources.found({"SLURM_MEM_PER_NODE": "50"}).memory == 50 << 20
    assert resources.found({"SLURM_MEM_PER_NODE": "50 000"}).memory != 50 << 20
    assert resources.found({"CUDA_VISIBLE_DEVICES": "-1"}).gpus == ()
    assert resources.found({"PBS_JOBID": "1.pbs", "NCPUS": "1"}).count == 1
    assert resources.found({"NCPUS": "1"}).count == len(os.sched_getaffinity(0))


def test_options_overrule_what_is_found() -> None:
    """Cores that are not there are counted, and nothing is kept on them."""
    environment = {"SLURM_CPUS_ON_NODE": "1", "SLURM_MEM_PER_NODE": "100"}
    allowed = sorted(os.sched_getaffinity(0))
    found = resources.found(environment, len(allowed), GIB)
    assert (found.count, found.cores, found.memory) == (len(allowed), tuple(allowed), GIB)
    assert resources.found({}, 5_000) == resources.found({}, 5_000, found.memory and None)
    assert resources.found({}, 5_000).cores == ()


def test_slots_have_equal_shares_of_their_own() -> None:
    """What cannot be divided is left."""
    node = Resources(7, tuple(range(7)), 10 * GIB)
    shares = [node.share(slot, 2) for slot in (0, 1)]
    assert [share.cores for share in shares] == [(0, 1, 2), (3, 4, 5)]
    assert {(share.count, share.memory) for share in shares} == {(3, 5 * GIB)}


def test_agent_offers_what_a_start_can_have_unless_tags_override_it() -> None:
    """A slot's share of the cores and the memory; all GPUs and named resources of the node."""
    node = Resources(8, (), 10 * GIB + 2, ("0",))
    assert resources.offers(node, 2, ()) == ("cores=4", "mem=5", "gpus=1")
    assert resources.offers(node, 2, ("mem=64", "avx")) == ("mem=64", "avx", "cores=4", "gpus=1")
    assert resources.offers(Resources(0), 1, ()) == ()
    assert resources.offers(Resources(0, gpus=("0", "1")), 8, ()) == ("gpus=2",)
    sized = Resources(0, gpus=("0", "1"), gpu_memory={"0": 80 * GIB, "1": GIB // 2})
    assert resources.offers(sized, 8, ()) == ("gpus=2", "gpumem=80")
    many = tuple(f"tag{number}" for number in range(31))
    assert resources.offers(node, 2, many) == (*many, "cores=4")


def test_named_resources_become_tags_that_users_cannot_give() -> None:
    """Else an agent would claim what it cannot count."""
    node = Resources(0, named={"scratch": 200 * GIB, "licence": 2})
    own = ("resource.licence=2", f"resource.scratch={200 * GIB}")
    assert resources.offers(node, 1, ("avx", "resource.licence=9")) == ("avx", *own)
    assert check_offers(own) == own


@pytest.mark.parametrize(
    ("word", "amount"), [("licence=2", 2), ("licence = 1", 1), ("licence=999999999999999", MOST)]
)
def test_amount_of_a_named_resource_is_a_whole_number(word: str, amount: int) -> None:
    assert named_amount(word) == ("licence", amount)
    assert named_amount("scratch=1.5T") == ("scratch", 1536 * GIB)


@pytest.mark.parametrize(
    "word",
    "a a= =1 A=1 1a=1 a-b=1 a=0 a=-1 a=1.5 a=1e3 a=9999999999999999 a=1X é=1".split(),  # noqa: SIM905
)
def test_malformed_named_resource_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="must"):
        named_amount(word)


def test_number_of_named_resources_is_bounded() -> None:
    many = [(f"r{number}", 1) for number in range(MAX_RESOURCES)]
    assert resources.found({}, named=many).named == dict(many)
    with pytest.raises(ValueError, match="9 named resources; 8 at most"):
        resources.found({}, named=[*many, ("more", 1)])
    with pytest.raises(ValueError, match="r0 is given twice"):
        resources.found({}, named=[("r0", 1), ("r0", 2)])


@pytest.mark.parametrize(
    ("size", "offered"),
    [
        (100 << 20, "0"),
        (700 << 20, "0.625"),
        (15.7 * GIB, "15"),
        (62.7 * GIB, "60"),
        (503 * GIB, "480"),
    ],
)
def test_offered_memory_is_rounded_down(size: float, offered: str) -> None:
    """So that machines of a kind make agents of a kind."""
    assert resources.offers(Resources(0, (), int(size)), 1, ()) == (f"mem={offered}",)


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


def test_offer_is_a_fact_not_a_condition() -> None:
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
