"""Agents that get no further than their start, and certificates that end: people learn of both."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import trustme

from taskq.diagnosis.reasons import Reason
from tests.fixtures.gateways import GatewayProcess, Realm, opened
from tests.helpers.campaigns import servable
from tests.helpers.waiting import wait_until
from tests.helpers.way import Page, way_to
from tests.helpers.worker_node import WorkerNode

UNFIT = 69
#: A folder in which nobody can make one, not even root.
UNUSABLE = "/proc"
SOON = timedelta(days=3)


def of_code(realm: Realm, code: str) -> list[Reason]:
    """Return the reasons of a kind why a campaign does not run."""
    return [it for it in realm.campaign.explain().reasons if it.code == code]


@pytest.mark.thorough
def test_agent_that_cannot_begin_leaves_its_own_words(realm: Realm, node: WorkerNode) -> None:
    """Restarted again and again it is one note, which is gone when an agent gets in there."""
    realm.seed(4)
    options = {"campaign": realm.path, "host": "n17", "site": "aare", "scratch": UNUSABLE}
    for _ in range(3):
        result = node.run(realm.gateway.url, **options)
        assert result.code == UNFIT, result.err
    (reason,) = of_code(realm, "capacity-lost")
    assert "host n17" in reason.text
    assert "they say: this node is unfit: no scratch folder can be used" in reason.text
    assert realm.queue.agents(realm.path) == []
    (host,) = [it for it in realm.queue.fleet.hosts(realm.path) if it.name == "n17"]
    assert "its agents say: this node is unfit" in host.gone
    del options["scratch"]
    with node.at_work(realm.gateway.url, **options):
        wait_until(lambda: realm.queue.agents(realm.path))
        assert of_code(realm, "capacity-lost") == []


def test_words_of_an_agent_are_repeated_until_a_gateway_that_starts_is_up(
    realm: Realm, node: WorkerNode
) -> None:
    """After a power cut both start at once; a proxy before the gateway says so meanwhile."""
    realm.seed(1)
    options = {"campaign": realm.path, "host": "n19", "site": "aare", "scratch": UNUSABLE}
    with way_to(realm.gateway.port) as way:
        away = iter([Page(502)] * 4)
        way.judge = lambda *_: next(away, None)
        assert node.run(way.url, **options).code == UNFIT
    (reason,) = of_code(realm, "capacity-lost")
    assert "host n19" in reason.text


def test_words_of_an_agent_need_a_valid_token_and_are_cut_and_cleaned(realm: Realm) -> None:
    """What it says ends in a terminal or a page; a session it does not get."""
    words = {"campaign": realm.path, "host": "n18", "unfit": "\x1b[31mno disk " + "x" * 1_900}
    hello = {"key": "6f1c1d2e-0000-4000-8000-000000000000", **words}
    gateway = realm.gateway
    reply = gateway.ask("POST", "/v1/sessions", token="tqs_" + "a" * 43, body=hello)
    assert reply.status == 401
    assert realm.campaign.explain().reasons[0].code != "capacity-lost"
    reply = gateway.ask("POST", "/v1/sessions", token=realm.site, body=hello)
    assert reply.status == 403
    (host,) = [it for it in realm.queue.fleet.hosts(realm.path) if it.name == "n18"]
    assert "no disk" in host.gone
    assert "\x1b" not in host.gone
    assert len(host.gone) < 700


@pytest.mark.parametrize("left", [SOON, -SOON])
def test_gateway_whose_certificate_ends_is_named(dsn: str, tmp_path: Path, left: timedelta) -> None:
    """Soon, or a while ago: then agents that cannot trust it send nothing."""
    now = datetime.now(timezone.utc)
    chain = tmp_path / "gateway.pem"
    issued = trustme.CA().issue_cert(
        "127.0.0.1", not_before=now - timedelta(days=90), not_after=now + left
    )
    issued.private_key_and_cert_chain_pem.write_to_path(str(chain))
    gateway = GatewayProcess(
        dsn, tmp_path, "--tls-cert", chain, "--tls-key", chain, expected=["certificate"]
    )
    with opened(dsn) as queue:
        campaign = servable(queue, tasks=2)

        def found() -> list[Reason]:
            return [it for it in campaign.explain().reasons if it.code == "certificate-ends"]

        wait_until(found)
        (reason,) = found()
        assert ("has ended at" in reason.text) is (left < timedelta(0))
        assert bool(reason.lost) is (left < timedelta(0))
        assert f"{(now + left):%Y-%m-%d}" in reason.text
    gateway.stop()
