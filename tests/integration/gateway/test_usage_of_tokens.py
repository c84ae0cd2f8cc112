"""Core-hours over a gateway: each token sees those of its campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq import CampaignSpec, Client, connect
from taskq.model.errors import Forbidden
from tests.fixtures.gateways import StartGateway
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import TRUE
from tests.helpers.postgres import Postgres
from tests.helpers.usage import sum_up


def test_token_sees_what_its_campaigns_used(
    queue: Client, start_gateway: StartGateway, hire: Hire, postgres: Postgres, tmp_path: Path
) -> None:
    """Also after they were removed; nothing of others, whatever it asks for."""
    for path in ("/a/b", "/z", "/aa"):
        queue.create_campaign(CampaignSpec(path, handler=TRUE)).seed([{"n": 1}])
        agent = hire(path)
        agent.done(agent.claim()[0])
    sum_up(postgres)
    token = tmp_path / "token"
    token.write_text(queue.tokens.create("manager", "ann", ["/a"])[0])
    token.chmod(0o600)
    queue.campaign("/a").cancel()
    queue.campaign("/a").remove()
    with connect(start_gateway().url, token_file=token) as mine:
        for path in (None, "/a", "/a/b"):
            (line,) = mine.usage(path, per=["campaign"]).lines
            assert (line.campaign, line.attempts) == ("/a/b", 1)
        for path in ("/", "/z", "/aa"):
            with pytest.raises(Forbidden):
                mine.usage(path)
