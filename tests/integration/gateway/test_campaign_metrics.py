"""Metrics of campaigns: those of the token, so many at most; and the dashboard that shows them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from taskq.gateway import stored_metrics
from tests.fixtures.gateways import GatewayProcess, Realm, StartGateway, opened
from tests.fixtures.redis_servers import RedisServer
from tests.helpers.paths import ROOT
from tests.integration.gateway.site import Site

DASHBOARD = ROOT / "deploy/grafana/taskq.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
SAMPLE = re.compile(r'^(taskq_\w+)\{campaign="([^"]*)"(?:,status="(\w+)")?\} (\S+)$', re.MULTILINE)


def scrape(gateway: GatewayProcess, token: str, **connection: Any) -> str:
    """Return what Prometheus gets."""
    reply = gateway.peer(**connection).ask("GET", "/metrics", token=token)
    assert reply.status == 200
    return reply.body.decode()


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return the numbers of campaigns, by metric, campaign and status."""
    found = SAMPLE.findall(text)
    return {(*names, status) if status else (*names,): float(n) for *names, status, n in found}


def test_campaigns_have_metrics_of_their_own(realm: Realm) -> None:
    """Each its own tasks, without those below it, as they are."""
    realm.seed(5)
    below = realm.queue.create_campaign(f"{realm.path}/below")
    below.seed([{"n": 1}])
    below.pause()
    agent = realm.agent()
    done, failed, _ = agent.claim(3)
    reports = [{"outcome": "done"}, {"outcome": "failed", "error_class": "x", "retry": False}]
    fences = [
        {name: record[name] for name in ("campaign", "task", "lease")} for record in (done, failed)
    ]
    agent.exchange(reports=[fence | report for fence, report in zip(fences, reports, strict=True)])
    text = scrape(realm.gateway, realm.manager)
    found = samples(text)
    counts = {"waiting": 2, "delayed": 0, "working": 1, "done": 1, "failed": 1, "cancelled": 0}
    for status, number in counts.items():
        assert found["taskq_campaign_tasks", realm.path, status] == number
    assert found["taskq_campaign_tasks", below.path, "waiting"] == 1
    assert found["taskq_campaign_paused", realm.path] == 0
    assert found["taskq_campaign_paused", below.path] == 1
    assert found["taskq_campaign_failed_attempts", realm.path] == 1
    assert found["taskq_campaign_lost_attempts", realm.path] == 0
    assert "\ntaskq_campaigns 2.0\n" in text


def test_metrics_cover_the_campaigns_of_the_token_only(realm: Realm) -> None:
    """As all that a manager may look at; one whose campaign is gone has none."""
    other = realm.queue.create_campaign(f"{realm.path}-other")
    other.seed([{"n": 1}])
    realm.seed()
    paths = [f"{realm.path}-gone", realm.path, f"{realm.path}/in"]
    for path in paths[::2]:
        realm.queue.create_campaign(path).seed([{"n": 1}])
    token = realm.queue.tokens.create("manager", other.path[1:], paths)[0]
    gone = realm.queue.campaign(paths[0])
    gone.cancel()
    gone.remove()
    found = samples(scrape(realm.gateway, token))
    assert {names[1] for names in found} == {realm.path, f"{realm.path}/in"}


def test_number_of_series_is_bounded(realm: Realm) -> None:
    """By 200 campaigns, those with most unfinished tasks; a metric has their number."""
    for n in range(5):
        realm.queue.create_campaign(f"{realm.path}/{n}").seed({"n": m} for m in range(n + 1))
    rows = realm.queue.database.rows("campaign_metrics", paths=[realm.path], limit=3)
    text = "".join(str(campaign) for campaign in stored_metrics.of_campaigns(rows, {}))
    assert [row["path"] for row in rows] == [f"{realm.path}/{n}" for n in (4, 3, 2)]
    assert "value=5" in text


@pytest.fixture
def exposed(start_gateway: StartGateway, redis_server: RedisServer, dsn: str, site: Site) -> str:
    """Give all that a gateway with TLS and a front tells, of a queue with a campaign."""
    gateway = start_gateway("--redis", redis_server.url, *site.certificate)
    with opened(dsn) as queue:
        realm = Realm(queue, gateway)
        realm.seed()
        return scrape(gateway, realm.manager, tls=site.trust)


def expressions(dashboard: Any) -> list[str]:
    """Return all queries of a dashboard."""
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*found, *(v["definition"] for v in dashboard["templating"]["list"][1:])]


def test_dashboard_shows_metrics_that_there_are(exposed: str) -> None:
    """By their real names and labels; and it shows all metrics of campaigns."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    kinds = dict(re.findall(r"^# TYPE (taskq_\w+) (\w+)$", exposed, re.MULTILINE))
    names = {
        *(name for name, kind in kinds.items() if kind != "histogram"),
        *(f"{name}_bucket" for name, kind in kinds.items() if kind == "histogram"),
    }
    queries = expressions(dashboard)
    shown = {name for query in queries for name in re.findall(r"taskq_\w+", query)}
    assert len(shown) > 20
    assert shown <= names, shown - names
    assert {name for name in names if name.startswith(("taskq_campaign", "taskq_owner_"))} <= shown
    for query in queries:
        selected = set(re.findall(r"(\w+)=~?\"", query))
        assert selected <= {"campaign", "status"}
        assert not selected or "taskq_campaign_" in query
        statuses = re.findall(r'status=~?"([^"]*)"', query)
        exposed_statuses = set(re.findall(r'status="(\w+)"', exposed))
        assert {status for value in statuses for status in value.split("|")} <= exposed_statuses
        counters = re.findall(r"\brate\((taskq_\w+)", query)
        assert all(name.endswith(("_total", "_bucket")) for name in counters)


def test_alerts_ask_for_metrics_that_there_are(exposed: str) -> None:
    """Gauges, which have a delta and no rate; each alert says what to look at."""
    kinds = dict(re.findall(r"^# TYPE (taskq_\w+) (\w+)$", exposed, re.MULTILINE))
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    assert len(group["rules"]) == len({rule["alert"] for rule in group["rules"]}) > 5
    for rule in group["rules"]:
        names = re.findall(r"taskq_\w+", rule["expr"])
        assert {kinds[name] for name in names} <= {"gauge"}, rule
        assert "rate(" not in rule["expr"]
        assert rule["annotations"]["summary"]


def test_dashboard_can_be_imported() -> None:
    """One source of data, which is chosen then; no panel lies on another."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
    assert "http" not in json.dumps(dashboard)
