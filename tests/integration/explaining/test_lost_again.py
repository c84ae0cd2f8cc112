"""`taskq explain` on places whose agents are lost again and again while others take their place."""

from __future__ import annotations

import pytest

from tests.fixtures.queues import Hire
from tests.helpers.postgres import Postgres, expire, silence
from tests.integration.explaining.support import Make, explained

ROUNDS = 5


@pytest.mark.parametrize("hosts", [{"n2", "n3"}, {"n2"}])
def test_site_or_host_that_kills_its_agents_is_one_reason(
    make: Make, hire: Hire, postgres: Postgres, hosts: set[str]
) -> None:
    """Most attempts succeed there, so nothing else accuses it, and no campaign is at fault."""
    campaign = make("/c", tasks=300)
    earlier = "update taskq.attempt set claimed_at = claimed_at - i, ended_at = ended_at - i"
    places = {f"n{number}": f"s{number // 2}" for number in range(8)}
    agents = {host: hire("/c", host=host, site=site) for host, site in places.items()}
    for _ in range(ROUNDS):
        for agent in agents.values():
            for task in agent.claim(6):
                agent.done(task, {"energy": -float(task.task * 7919 % 97)})
        for host in hosts:
            agents[host].claim()
            silence(postgres, agents[host].session)
            assert expire(postgres) == 1
            agents[host] = hire("/c", host=host, site=places[host])
        postgres.execute(f"{earlier} from (values (interval '1 h')) as v (i)".encode())
    reasons = {it.code: it for it in explained(campaign).reasons if it.lost}
    found = reasons.pop("agents-lost")
    assert [*reasons] == []
    place = "on host n2" if len(hosts) == 1 else "at site s1 (hosts n2, n3)"
    assert f"Agents {place} are lost again and again since " in found.text
    assert found.figures["incidents"] == ROUNDS
    assert found.figures["attempts"] == found.figures["agents"] == ROUNDS * len(hosts)
    assert found.since is not None
