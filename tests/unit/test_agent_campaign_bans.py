"""Campaigns that an agent leaves out, since its host or site is banned for them."""

from __future__ import annotations

from taskq_agent.campaign_news import CampaignBan
from taskq_agent.core.campaign_bans import CampaignBans
from taskq_agent.protocol import MAX_WITHOUT, CampaignTerms

BAN = CampaignBan("/x", "old glibc")


def terms(number: int, path: str, revision: int = 1) -> CampaignTerms:
    """Return the terms of a campaign."""
    return CampaignTerms(number, revision, path, {}, {}, None)


def test_bans_cover_a_campaign_and_all_below_it() -> None:
    """And none whose name only begins alike."""
    bans = CampaignBans()
    assert not bans.cover(terms(1, "/x"))
    assert bans.set((BAN,)) == [BAN]
    assert bans.set((BAN,)) == []
    assert [bans.cover(terms(2, path)) for path in ("/x", "/x/a", "/xy", "/")] == [
        *(True, True, False, False),
    ]


def test_claims_leave_out_what_came_last() -> None:
    """As many campaigns as a claim can name, in their newest revision."""
    bans = CampaignBans()
    bans.set((BAN,))
    for number in range(MAX_WITHOUT + 4):
        assert bans.cover(terms(number, f"/x/{number}"))
    assert bans.without() == tuple((number, 1) for number in range(4, MAX_WITHOUT + 4))
    assert bans.cover(terms(4, "/x/4", revision=2))
    assert bans.without()[-1] == (4, 2)
    assert len(bans.without()) == MAX_WITHOUT


def test_campaigns_are_no_longer_left_out_when_the_ban_ends() -> None:
    """Others stay left out."""
    bans = CampaignBans()
    bans.set((BAN, CampaignBan("/y")))
    assert bans.cover(terms(1, "/x"))
    assert bans.cover(terms(2, "/y"))
    assert bans.set((CampaignBan("/y"),)) == []
    assert bans.without() == ((2, 1),)
    assert not bans.cover(terms(1, "/x"))
