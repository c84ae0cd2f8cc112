"""Changes of a campaign's settings that meet."""

from __future__ import annotations

from taskq import Campaign
from tests.interleavings.meeting import calling, meet

CHANGE = "select taskq.change_campaign('/c', %s)"


def test_of_two_changes_at_once_both_hold(campaign: Campaign, dsn: str) -> None:
    """The second waits, and changes what the first one left."""
    met = meet(dsn, calling(CHANGE, '{"weight": 2}'), calling(CHANGE, '{"max_running": 3}'))
    assert met.waited
    assert (campaign.spec().weight, campaign.spec().max_running) == (2, 3)
