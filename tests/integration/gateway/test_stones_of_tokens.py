"""Removed campaigns over a gateway: each token learns of those that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, connect
from taskq.model.errors import Forbidden, UnknownCampaign
from tests.fixtures.gateways import StartGateway
from tests.helpers.campaigns import TRUE


def test_token_reads_stones_of_its_own_campaigns_alone(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Of what was removed above them it learns the time, and neither owner, counts nor place."""
    for path in ("/a/b", "/z", "/aa"):
        queue.create_campaign(CampaignSpec(path, handler=TRUE)).seed([{"n": 1}])
    token = tmp_path / "token"
    token.write_text(queue.tokens.create("manager", "ann", ["/a/b"])[0])
    token.chmod(0o600)
    for path in ("/a", "/z", "/aa"):
        queue.campaign(path).remove()
    with connect(start_gateway().url, token_file=token) as mine:
        assert mine.removed() == []
        for path in ("/", "/a", "/z", "/aa"):
            with pytest.raises(Forbidden):
                mine.removed(path)
        with pytest.raises(UnknownCampaign) as caught:
            mine.campaign("/a/b")
        found = caught.value.removed
        assert found is not None
        assert found.path == "/a"
        known = {found.removed_by, found.owner, found.done, found.campaigns, found.archive}
        assert known == {None}


@pytest.mark.thorough
def test_stone_has_the_token_that_removed(
    queue: Client, start_gateway: StartGateway, tmp_path: Path
) -> None:
    queue.create_campaign("/a")
    token = tmp_path / "token"
    token.write_text(queue.tokens.create("submitter", "ann", ["/a"])[0])
    token.chmod(0o600)
    with connect(start_gateway().url, token_file=token) as mine:
        mine.campaign("/a").remove()
        assert [it.removed_by for it in mine.removed()] == ["ann"]
        with pytest.raises(UnknownCampaign, match=r"was removed at 20.* by ann"):
            mine.campaign("/a")
