"""Campaigns whose claims fail are left out: shortly at first, and longer if that repeats itself."""

from __future__ import annotations

from taskq.dispatch.campaign_faults import CampaignFaults

CAMPAIGN = 7


def faults() -> CampaignFaults:
    """Return faults whose pauses are not drawn."""
    return CampaignFaults(lambda: 0.5)


def rests(left: CampaignFaults, now: float, number: int) -> list[float]:
    """Let claims fail as soon as they are made again; return how long each pause was."""
    found = []
    for _ in range(number):
        left.note(CAMPAIGN, RuntimeError("no"), now)
        begun = now
        while CAMPAIGN in left.left_out(now):
            now += 1.0
        found.append(now - begun)
    return found


def test_campaign_that_fails_again_and_again_is_left_out_longer_and_longer() -> None:
    """Up to a minute: what is damaged stays so, and costs a statement each time."""
    assert rests(faults(), 100.0, 8) == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_campaign_that_answers_again_is_left_out_shortly_the_next_time() -> None:
    """A limit of time that was met before says nothing of now."""
    left = faults()
    assert rests(left, 100.0, 7)[-1] == 60.0
    left.answered(CAMPAIGN)
    assert rests(left, 1_000.0, 1) == [1.0]


def test_calls_that_were_under_way_make_no_pause_longer() -> None:
    """Many of one gateway fail at once."""
    left = faults()
    for now in (100.0, 100.5, 100.9):
        left.note(CAMPAIGN, RuntimeError("no"), now)
    assert left.left_out(100.9) == {CAMPAIGN}
    assert not left.left_out(101.0)
