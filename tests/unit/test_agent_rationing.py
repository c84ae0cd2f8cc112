"""Starts that share the devices and named resources of a node: made-up ones, and no threads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskq_agent.core.rationing import _PATIENCE_S
from taskq_agent.protocol import CampaignTerms
from taskq_agent.resources import Resources
from taskq_agent.room import Grant, Room
from taskq_agent.slot_shares import MAX_SHARES, WHOLE, DeviceShare, NamedShare, SlotShare
from taskq_agent.wire import check, dumps
from tests.helpers.shared_node import SharedNode

GIB = 1 << 30
QUARTER, HALF, WHOLE_ONE = {"gpus": 0.25}, {"gpus": 0.5}, {"gpus": 1}
LICENCE: dict[str, Any] = {"named_resources": {"licence": 1}}
PLAIN: dict[str, Any] = {}


def gpus(count: int, **more: Any) -> Resources:
    """Return a node with so many made-up devices."""
    return Resources(gpus=tuple(f"GPU-{number}" for number in range(count)), **more)


def terms_of(**needs: Any) -> CampaignTerms:
    """Return the terms of a campaign with these needs."""
    return CampaignTerms(1, 1, "/c", {}, {}, None, **needs)


def test_start_of_a_named_resource_waits_until_enough_is_free() -> None:
    """Two of four slots work; the others do not claim what they cannot start."""
    node = SharedNode(Resources(named={"licence": 2}), 4, {1: LICENCE})
    assert node.at_work() == [1, 1]
    handed_back = node.handed_back
    for _ in range(20):
        node.tick(1)
    assert (node.at_work(), node.handed_back) == ([1, 1], handed_back)
    assert all((1, 1) in claim.without for claim, _ in node.claims[1:])
    assert (
        node.logged.count("/c/1 waits for room here: 0 of 2 licence are free, and it needs 1") == 1
    )


def test_freed_resource_wakes_the_waiting_slot_at_once() -> None:
    """Also after claims that found nothing, whose pauses have grown."""
    node = SharedNode(Resources(named={"licence": 2}), 4, {1: LICENCE})
    for _ in range(30):
        node.tick(1)
    before = node.now
    node.end(next(iter(node.running)))
    assert (node.at_work(), node.now) == ([1, 1], before)
    while node.running:
        node.end(next(iter(node.running)))
    assert node.done == {1: 10}


def test_start_that_waits_for_others_of_its_batch_gets_them() -> None:
    """The task that came first has the only device, and all others begin with it."""
    batched = WHOLE_ONE | {"handler": {"kind": "command", "batch": 12}}
    node = SharedNode(gpus(1), 1, {1: batched}, tasks=24)
    node.tick(1)
    node.end(next(iter(node.running)))
    assert [len(start.tasks) for start in node.started] == [12, 12]
    assert node.handed_back == 0


def test_campaign_without_room_leaves_the_other_slots_to_others() -> None:
    node = SharedNode(Resources(named={"licence": 1}), 4, {1: LICENCE, 2: PLAIN})
    node.tick(10)
    assert node.at_work() == [1, 2, 2, 2]


def test_known_campaigns_do_not_bring_more_than_has_room() -> None:
    """Only the first claim does, since the agent does not know yet what the campaign needs."""
    node = SharedNode(Resources(named={"licence": 2}), 8, {1: LICENCE}, tasks=40)
    first = node.handed_back
    while node.running:
        node.end(next(iter(node.running)))
    assert (node.done[1], node.handed_back) == (40, first)


def test_sizes_and_numbers_must_all_be_free() -> None:
    """A start takes all that it needs, or nothing."""
    needs = {"named_resources": {"scratch": 60 * GIB, "licence": 1}}
    has = Resources(named={"scratch": 100 * GIB, "licence": 5})
    node = SharedNode(has, 4, {1: needs, 2: {"named_resources": {"licence": 2}}})
    node.tick(5)
    assert node.at_work() == [1, 2, 2]


def test_starts_of_several_sizes_share_devices() -> None:
    """A quarter, a half and a whole one in turn, on two devices."""
    campaigns = {1: QUARTER, 2: HALF, 3: WHOLE_ONE}
    node = SharedNode(gpus(2), 6, campaigns, tasks=4)
    seen = set()
    for turn in range(100):
        node.order = [1 + (turn + offset) % 3 for offset in range(3)]
        if node.running:
            node.end(min(node.running))
        node.tick(1)
        seen.add(tuple(node.at_work()))
    assert node.done == {1: 4, 2: 4, 3: 4}
    assert any(len(set(at_work)) > 1 for at_work in seen)


def test_start_that_needs_a_whole_device_is_not_kept_waiting_by_small_shares() -> None:
    """The queue offers the small ones first, always; after some time they leave it a device."""
    node = SharedNode(gpus(1), 4, {1: QUARTER, 2: WHOLE_ONE}, tasks=1_000)
    for turn in range(1_000):
        node.tick(_PATIENCE_S / 10)
        if turn == 0:
            node.order = [2, 1]
            node.end(min(node.running))  # so that it learns of the large one
            node.order = [1, 2]
        elif node.running:
            node.end(min(node.running))
        if node.done[2] >= 1:
            break
    assert node.done[2] >= 1
    assert node.done[1] > 0
    assert any("no device has room for 1, of 1" in line for line in node.logged)


def test_batch_is_a_single_start() -> None:
    """It needs its licence once, for all its tasks."""
    batched = {**LICENCE, "handler": {"kind": "command", "batch": 5}}
    node = SharedNode(Resources(named={"licence": 1}), 3, {1: batched}, tasks=20)
    node.tick(5)
    while node.running:
        assert len(node.running) == 1
        node.end(next(iter(node.running)))
        node.tick(5)
    assert node.done == {1: 20}
    assert max(len(start.tasks) for start in node.started) == 5
    assert len(node.started) <= 8


def test_resource_that_the_node_never_has_is_named_and_holds_up_nobody() -> None:
    """Such as where tags promise more than there is."""
    node = SharedNode(gpus(1), 2, {1: {"gpus": 2}, 2: PLAIN}, tasks=5)
    for _ in range(100):
        node.tick(_PATIENCE_S)
        if node.running:
            node.end(min(node.running))
    assert (node.done[1], node.done[2]) == (0, 5)
    never = "/c/1 never has room here: 1 of 1 devices are free, and it needs 2"
    assert node.logged.count(never) == 1


def test_slot_keeps_its_device_and_starts_spread_over_the_others() -> None:
    """So a resident child can stay, and no device idles while another has two starts."""
    node = SharedNode(gpus(4), 4, {1: QUARTER})
    assert node.devices() == [("GPU-0",), ("GPU-1",), ("GPU-2",), ("GPU-3",)]
    before = {slot: start.grant for slot, start in node.running.items()}
    for slot, grant in before.items():
        node.end(slot)
        assert node.running[slot].grant == grant


def test_memory_of_a_device_raises_the_share() -> None:
    """Of one with less memory more is needed; one that is too small is left out."""
    has = {"GPU-0": 40 * GIB, "GPU-1": 80 * GIB, "GPU-2": 16 * GIB}
    room = Room(gpus(3, gpu_memory=has))
    needs = terms_of(gpus=0.1, gpu_memory=20 * GIB)
    taken = [room.place(needs) for _ in range(7)]
    parts = [grant.devices for grant in taken if grant]
    assert sorted(parts) == [(("GPU-0", 500),)] * 2 + [(("GPU-1", 250),)] * 4
    assert {grant.gpu_memory for grant in taken if grant} == {20 * GIB}
    assert taken[-1] is None
    assert "no device has room for 0.1 with 21,474,836,480 bytes, of 3" in room.lacks(needs)


def test_share_of_the_memory_follows_from_the_share_of_the_device() -> None:
    room = Room(gpus(1, gpu_memory={"GPU-0": 80 * GIB}))
    assert room.place(terms_of(gpus=0.25)) == Grant((("GPU-0", 250),), 20 * GIB)
    assert Room(gpus(1)).place(terms_of(gpus=1)) == Grant((("GPU-0", WHOLE),))


NEEDS = st.fixed_dictionaries(
    {},
    optional={
        "gpus": st.sampled_from([0.25, 0.3, 0.5, 1, 2]),
        "named_resources": st.dictionaries(
            st.sampled_from(["scratch", "licence"]), st.integers(1, 3), max_size=2
        ),
    },
)


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(
    needs=st.lists(NEEDS, min_size=1, max_size=4),
    count=st.integers(2, 4),
    slots=st.integers(1, 8),
    data=st.data(),
)
def test_any_mixture_is_worked_off_and_nothing_is_given_out_twice(
    needs: list[dict[str, Any]], count: int, slots: int, data: st.DataObject
) -> None:
    """Whatever ends first, and in whatever order the queue gives campaigns out."""
    node = SharedNode(
        gpus(count, named={"scratch": 3, "licence": 4}), slots, dict(enumerate(needs, 1)), tasks=6
    )
    for _ in range(400):
        if sum(node.done.values()) == 6 * len(needs):
            break
        node.order = data.draw(st.permutations(node.order))
        if node.running:
            node.end(data.draw(st.sampled_from(sorted(node.running))))
        node.tick(2)
    assert node.done == dict.fromkeys(node.terms, 6)


def test_heartbeat_says_what_each_slot_has_of_its_node() -> None:
    """Devices with their parts, and amounts; nothing of starts that need nothing."""
    needs: dict[str, Any] = {"gpus": 0.25, "named_resources": {"licence": 1}}
    node = SharedNode(gpus(1, named={"licence": 1}), 3, {1: needs, 2: PLAIN}, tasks=1)
    heartbeat = node.core.heartbeat()
    assert heartbeat is not None
    (slot,) = [slot for slot, start in node.running.items() if start.campaign.campaign == 1]
    devices, amounts = (DeviceShare("GPU-0", 250),), (NamedShare("licence", 1),)
    assert heartbeat.shares == (SlotShare(slot, 1, 0, devices, amounts),)
    node.end(slot)
    after = node.core.heartbeat()
    assert after is not None
    assert after.shares == ()


def test_shares_in_a_heartbeat_are_bounded() -> None:
    """Whatever the devices are called, and however many slots have some: the session lives on."""
    long = Resources(gpus=tuple(f"\x07{'é' * 300}{number}" for number in range(20)))
    many = Resources(named={"licence": 1_000})
    for node, slots, needs in [
        (long, 40, {"gpus": 18}),
        (long, 40, WHOLE_ONE),
        (many, 200, LICENCE),
    ]:
        shared = SharedNode(node, slots, {1: needs}, tasks=300)
        heartbeat = shared.core.heartbeat()
        assert heartbeat is not None
        check(heartbeat)
        assert 0 < len(heartbeat.shares) <= MAX_SHARES
        assert len(dumps(heartbeat.shares).encode()) < 9_000
