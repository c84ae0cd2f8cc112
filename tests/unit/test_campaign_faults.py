"""Campaigns whose claims fail are left out: shortly at first, and longer if that repeats itself."""

from __future__ import annotations

from taskq.dispatch.campaign_faults import FIRST_REST_S, REST_S, CampaignFaults

CAMPAIGN = 7


def rests(faults: CampaignFaults, now: float, number: int) -> list[float]:
    """Let claims fail as soon as they are made again; return how long each pause was."""
    found = []
    for _ in range(number):
        faults.note(CAMPAIGN, RuntimeError("no"), now)
        begun = now
        while CAMPAIGN in faults.left_out(now):
            now += FIRST_REST_S
        found.append(now - begun)
    return found


def test_campaign_that_fails_again_and_again_is_left_out_longer_and_longer() -> None:
    """Up to a minute: what is damaged stays so, and costs a statement each time."""
    assert rests(CampaignFaults(), 100.0, 8) == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_campaign_that_failed_long_ago_is_left_out_shortly() -> None:
    """A limit of time that was met then says nothing of now."""
    faults = CampaignFaults()
    assert rests(faults, 100.0, 6)[-1] == REST_S
    assert rests(faults, 1_000.0, 1) == [FIRST_REST_S]


def test_calls_that_were_under_way_make_no_pause_longer() -> None:
    """Many of one gateway fail at once."""
    faults = CampaignFaults()
    for now in (100.0, 100.5, 101.0):
        faults.note(CAMPAIGN, RuntimeError("no"), now)
    assert list(faults.left_out(101.9)) == [CAMPAIGN]
    assert not faults.left_out(102.0)
