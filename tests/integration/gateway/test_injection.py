"""What agents say reaches SQL as values: whatever it holds, it is stored as it came."""

from __future__ import annotations

import pytest

from taskq_agent.protocol import DONE, FAILED
from tests.fixtures.gateways import Realm
from tests.integration.gateway.peers import Agent, hello, report_of

STATEMENTS = (
    "'; drop schema taskq cascade; --",
    "$$; select pg_sleep(60); $$",
    "%s %(path)s %%",
    "{0} {path} ${PATH} $1",
    "\\'; copy taskq.token to program 'id' --",
    'a","outcome":"done","x":"',
    "{a,b} \\N \\.",
)


@pytest.mark.parametrize("text", STATEMENTS)
def test_words_of_a_hello_are_values(realm: Realm, text: str) -> None:
    """Name, host, site and release are shown as they were reported; a campaign is one or none."""
    said = {"name": text, "host": text, "site": text, "release": text[:50]}
    Agent.enrolled(realm.gateway.peer(), realm.site, {"campaign": realm.path, **said})
    (agent,) = realm.queue.agents(realm.path)
    assert (agent.agent, agent.host, agent.site, agent.release) == (text, text, text, text[:50])
    for wrong in ({"campaign": text}, {"key": text}, {"offers": [text]}):
        body = {**hello(realm.path), **wrong}
        reply = realm.gateway.ask("POST", "/v1/sessions", token=realm.site, body=body)
        assert 400 <= reply.status < 500, reply


@pytest.mark.parametrize("outcome", [DONE, FAILED])
@pytest.mark.parametrize("text", STATEMENTS)
def test_words_of_a_report_are_values(realm: Realm, agent: Agent, text: str, outcome: str) -> None:
    """Result, error, its class, the tail and the names of phases come out as they went in."""
    realm.seed()
    (task,) = agent.claim()
    words = {"error": text, "error_class": text, "tail": text, "phases": {text: 1.5}}
    result = {"result": {text: text}} if outcome == DONE else {}
    report = report_of(task, outcome=outcome, retry=False, **words, **result)
    assert agent.exchange(reports=[report]).json["acks"][0]["verdict"] == "accepted"
    (attempt,) = realm.campaign.attempts(task["key"])
    assert attempt.phases == {text: 1.5}
    if outcome == DONE:
        assert attempt.result == {text: text}
    else:
        assert (attempt.error, attempt.error_class, attempt.tail) == (text, text, text)


@pytest.mark.parametrize("text", STATEMENTS)
def test_fence_that_is_none_is_refused(realm: Realm, agent: Agent, text: str) -> None:
    """In reports, claims and beats: ids are numbers and UUIDs before SQL sees them."""
    realm.seed()
    (task,) = agent.claim()
    for wrong in ({"lease": text}, {"task": text}, {"campaign": text}, {"outcome": text}):
        reply = agent.exchange(reports=[{**report_of(task), **wrong}])
        assert (reply.status, reply.code) == (400, "malformed")
    assert agent.exchange(want=1, lease=text).status == 400
    assert agent.report(task) == ["accepted"]
