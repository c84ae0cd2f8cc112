"""What managers may run over a gateway, by which token, and what that costs nobody else."""

from __future__ import annotations

import gzip
import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taskq import CampaignSpec, Client, Conflict, Handler, NotOverGateway, Seed, UsageError
from taskq.db.gateway_queries import GatewayQueries
from taskq.gateway import manager_bodies
from taskq.model.errors import Forbidden, KeyConflict, NotFound, Unauthorized, Unavailable
from tests.fixtures.gateways import Realm, StartGateway
from tests.helpers.waiting import wait_until
from tests.integration.gateway.peers import Reply

COUNTS = "/v1/manage/counts"
FOUND = {
    "filter": '["and"]',
    "states": ["waiting"],
    "parts": [],
    "payloads": True,
    "tasks": None,
}


def client(realm: Realm, kind: str = "submitter") -> Client:
    """Return a client with a new token of a kind, for the test's campaign."""
    return Client(GatewayQueries(realm.gateway.url, realm.token(kind), patience_s=0))


@pytest.fixture
def submitter(realm: Realm) -> Iterator[Client]:
    """Give the queue as a submitter of the test's campaign reaches it."""
    with client(realm) as queue:
        yield queue


@pytest.fixture
def manager(realm: Realm) -> Iterator[Client]:
    """Give the queue as a manager of the test's campaign reaches it."""
    with client(realm, "manager") as queue:
        yield queue


def asked(realm: Realm, path: str, body: bytes, token: str = "", **headers: str) -> Reply:
    """Return the answer to a request that is not as the client makes it."""
    with realm.gateway.peer() as peer:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        peer.send(
            f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token or realm.manager}\r\n"
            f"content-length: {len(body)}\r\n{head}\r\n".encode()
            + body
        )
        return peer.reply()


def error(reply: Reply) -> tuple[int, str]:
    """Return status and code of an error."""
    return reply.status, json.loads(reply.body)["error"]["code"]


@pytest.mark.parametrize("end", [b"\xff", b"\0"], ids=["not UTF-8", "NUL"])
def test_long_text_goes_to_postgresql_undecoded(
    realm: Realm, submitter: Client, end: bytes
) -> None:
    """Store it unchanged and uncut; PostgreSQL refuses what is not text."""
    own = submitter.create_campaign(f"{realm.path}/own")
    key = "Ω" * 8
    payload = {"x": "β\\" * 10_000}
    seeds = [{"key": f"{key}{n}", "payload": payload} for n in range(4)]
    tasks = json.dumps(seeds, ensure_ascii=False).encode()
    head = json.dumps({"path": own.path, "on_conflict": "skip"}).encode() + b"\n"
    where, token = "/v1/manage/submit?rest=tasks", realm.token("submitter")
    for text in (tasks + end, tasks[:-3] + end + tasks[-3:]):
        assert asked(realm, where, head + text, token).status == 422
    assert own.status().total == 0
    assert asked(realm, where, head + tasks, token).status == 200
    assert {own.task(seed["key"]).payload == payload for seed in seeds} == {True}
    large = json.dumps({"path": own.path, "tasks": "x" * (1 << 20), "on_conflict": "skip"})
    assert error(asked(realm, "/v1/manage/submit", large.encode(), token)) == (413, "too_large")


@pytest.mark.parametrize(
    ("handler", "named"),
    [
        ({"kind": "cobol"}, "handler.kind"),
        ({"argv": ["true"]}, "handler.kind"),
        ({"kind": "command", "argv": []}, "handler.argv"),
        ({"kind": "command", "argv": ["true"], "shell": True}, "shell"),
        ({"kind": "python", "target": "os"}, "handler.target"),
        (["true"], "handler"),
    ],
)
def test_handler_that_nobody_could_read_is_refused(
    realm: Realm, submitter: Client, handler: object, named: str
) -> None:
    """In a new campaign and in a change; the error names the field, and nothing is stored."""
    path = f"{realm.path}/own"
    own = submitter.create_campaign(path)
    before = own.spec()
    token = realm.token("submitter")
    for name, at in (("create_campaign", f"{path}/new"), ("change_campaign", path)):
        body = {"path": at, "spec": json.dumps({"handler": handler})}
        reply = asked(realm, f"/v1/manage/{name}", json.dumps(body).encode(), token)
        refused = json.loads(reply.body)["error"]
        assert (reply.status // 100, refused["kind"]) == (4, "InvalidCampaign"), refused
        assert named in refused["message"]
    assert own.spec() == before
    with pytest.raises(NotFound):
        submitter.campaign(f"{path}/new")


def test_submitter_works_within_its_campaigns_only(realm: Realm, submitter: Client) -> None:
    """By path and by id, above and next to; absent campaigns look like those of others."""
    other = realm.queue.create_campaign(f"/{secrets.token_hex(6)}")
    own = submitter.create_campaign(f"{realm.path}/own")
    own.seed([{"n": 1}])
    for path in ("/", other.path, f"{realm.path}x"):
        with pytest.raises(Forbidden, match=f"is not for {path}, but for {realm.path}$"):
            submitter.campaign(path)
        with pytest.raises(Forbidden):
            submitter.create_campaign(f"{path.rstrip('/')}/new")
    for number in (other.campaign_id, 2**40, -1):
        for name, more in (
            ("tasks", {"status": None, "after": 0, "limit": 1}),
            ("results", {"after": 0, "limit": 1}),
            ("find_tasks", {**FOUND, "after": 0, "limit": 1}),
            ("prioritise", {"tasks": "{1}", "priorities": "{1}"}),
            ("cancel", {"tasks": None, "after": 0, "limit": 1, "begun": True}),
            ("remove_tasks", {"after": 0, "limit": 1}),
        ):
            with pytest.raises(Forbidden, match=f"not for campaign {number}"):
                submitter.queries.rows(name, campaign=number, **more)
    assert other.status().cancelled == 0


def test_lists_begin_at_the_campaign_that_the_token_is_for(realm: Realm, submitter: Client) -> None:
    """Where no path is named; next to the database at the top."""
    agent = realm.agent()
    realm.seed()
    for queue in (submitter, realm.queue):
        assert agent.session in [agent.session_id for agent in queue.agents()]
        assert queue.left_over().unfinished >= 1
    assert submitter.runs() == submitter.refusals() == []
    assert {agent.path for agent in submitter.left_agents()} <= {realm.path}


def test_manager_does_not_say_what_agents_execute(realm: Realm, manager: Client) -> None:
    """It looks, steers and adds tasks; it sees no key that seals arguments."""
    handler = Handler("function", name="f", archive="0" * 64, python="3.11", seal="ab" * 32)
    sealed = realm.queue.create_campaign(CampaignSpec(f"{realm.path}/s", handler=handler))
    with pytest.raises(Forbidden, match="needs a submitter's token"):
        manager.create_campaign(f"{realm.path}/new")
    campaign = manager.campaign(realm.path)
    with pytest.raises(Forbidden, match="needs a submitter's token"):
        campaign.change(CampaignSpec(realm.path))
    with pytest.raises(Forbidden):
        campaign.remove_input("x")
    assert campaign.seed([{"n": 1}]).added == 1
    assert (campaign.pause(), campaign.resume(), campaign.status().waiting) == (True, True, 1)
    row = manager.queries.rows("campaign", path=sealed.path)[0]
    assert "seal" not in row["settings"]["handler"]
    assert row["settings"]["handler"]["archive"] == "0" * 64
    assert "ab" * 32 not in json.dumps(row, default=str)


def test_manager_reads_how_busy_the_queue_is(realm: Realm) -> None:
    """All long changes ask for it, see PacedChange."""
    with closing(GatewayQueries(realm.gateway.url, realm.token("manager"))) as queries:
        assert queries.value("transactions") > 0


@pytest.mark.thorough
def test_manager_steers_what_matches_a_filter(realm: Realm, manager: Client) -> None:
    """In pages that miss nothing, though they are bounded in bytes."""
    campaign = manager.campaign(realm.path)
    campaign.seed(Seed({"n": n, "x": "y" * 60_000}, f"k{n}") for n in range(150))
    where = "payload.n >= 10"
    assert [task.payload["n"] for task in campaign.tasks(where=where)] == list(range(10, 150))
    assert campaign.set_priority(3, where=where) == 140
    assert campaign.prioritise({"k0": 3, "k10": 4}).changed == 2
    assert campaign.cancel(where="priority = 3", dry_run=True) == 140
    assert campaign.cancel(where="priority = 3") == 140
    assert campaign.retry(status="cancelled", where="payload.n = 0") == 1
    words: dict[str, Any] = {"campaign": campaign.campaign_id, "after": 0, "limit": 9} | FOUND
    for wrong in ({"filter": "exists("}, {"filter": '["eval", ["key"], "x"]'}, {"parts": "x"}):
        with pytest.raises(UsageError):
            manager.queries.rows("find_tasks", **words | wrong)


def test_only_a_picklers_token_sends_functions_by_value(realm: Realm, submitter: Client) -> None:
    """Whatever the gateway's own login may."""
    handler = Handler("function", name="f", archive="0" * 64, python="3.11", seal="ab" * 32)
    spec = CampaignSpec(f"{realm.path}/p", handler=handler)
    with pytest.raises(Forbidden, match="token of a submitter does not allow functions by value"):
        submitter.create_campaign(spec)
    with client(realm, "pickler") as pickler:
        assert pickler.create_campaign(spec).spec().handler == handler
    # Who changes something else sends the handler as it is.
    submitter.campaign(spec.path).change(spec)
    # But to no other campaign.
    with pytest.raises(Forbidden, match="does not allow functions by value"):
        submitter.create_campaign(replace(spec, path=f"{realm.path}/q"))


def test_requests_of_managers_are_counted(realm: Realm, manager: Client) -> None:
    """Whatever they ask for, and nothing of strangers or agents."""
    before = realm.gateway.metric("managed_total", realm.manager)
    for _ in range(3):
        manager.queries.rows("counts", path=realm.path, depth=0)
        assert asked(realm, COUNTS, b"{}", "tqm_made-up").status == 401
        realm.agent()
    assert realm.gateway.metric("managed_total", realm.manager) == before + 4


def test_errors_come_back_as_themselves(realm: Realm, submitter: Client) -> None:
    """With their fields, as those of PostgreSQL would."""
    campaign = submitter.create_campaign(f"{realm.path}/e")
    with pytest.raises(Conflict, match="exists already"):
        submitter.create_campaign(f"{realm.path}/e", exist_ok=False)
    with pytest.raises(NotFound, match="no campaign"):
        submitter.campaign(f"{realm.path}/none")
    campaign.seed([Seed({"n": 1}, "a")])
    with pytest.raises(KeyConflict) as caught:
        campaign.seed([Seed({"n": 0}, "b"), Seed({"n": 2}, "a")])
    (clash,) = caught.value.clashes
    assert (clash.key, clash.number, caught.value.count) == ("a", 2, 1)
    with pytest.raises(NotOverGateway, match="audit does not work over a gateway"):
        next(iter(submitter.audit(realm.path)))
    with pytest.raises(NotOverGateway, match="drain_sessions does not work over a gateway"):
        submitter.drain_agents(realm.path)
    with pytest.raises(UsageError):
        submitter.queries.rows("counts", path=f"{realm.path}\x00", depth=0)
    with pytest.raises(UsageError, match="valid Unicode"):
        campaign.submit({"n": 1}, key="\ud800")


def test_revoked_or_strange_token_runs_nothing_at_once(realm: Realm) -> None:
    """Nothing is cached that would let it in; a site's token is none of a manager."""
    name = secrets.token_hex(6)
    token = realm.token("submitter", name)
    with Client(GatewayQueries(realm.gateway.url, token, patience_s=0)) as queue:
        queue.campaign(realm.path)
        realm.queue.tokens.revoke(name)
        with pytest.raises(Unauthorized):
            queue.campaign(realm.path)
    brief, body = realm.token("submitter", days=0.2 / 86_400), {"path": realm.path, "depth": 0}
    wait_until(lambda: asked(realm, COUNTS, json.dumps(body).encode(), brief).status == 401)
    for strange in (realm.site, "tqm_made-up", realm.agent().token):
        with (
            Client(GatewayQueries(realm.gateway.url, strange, patience_s=0)) as queue,
            pytest.raises((Unauthorized, Forbidden)),
        ):
            queue.campaign(realm.path)
    with pytest.raises(Unauthorized):
        GatewayQueries(realm.gateway.url, "tqm_made-up").open()


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/manage/create_token", b"{}", (404, "not_offered")),
        ("/v1/manage/pg_sleep", b"{}", (404, "not_offered")),
        ("/v1/manage/..%2Frights", b"{}", (404, "not_found")),
        (COUNTS, b"{}", (400, "malformed")),
        (COUNTS, b"[]", (400, "malformed")),
        (COUNTS, b"no json", (400, "malformed")),
        (COUNTS, b'{"path": "/", "depth": 0, "more": 1}', (400, "malformed")),
        (COUNTS, b'{"path": {"a": 1}, "depth": 0}', (400, "malformed")),
        (COUNTS, b'{"path": 5, "depth": 0}', (422, "refused")),
        (COUNTS, b'{"path": "/x\'; drop schema taskq", "depth": 0}', (422, "refused")),
        (COUNTS, b'{"path": "PATH", "depth": "x"}', (422, "refused")),
        (COUNTS + "?rest=depth", b'{"path": "PATH"}\n\xff', (422, "refused")),
        (
            "/v1/manage/tasks",
            b'{"campaign": 1, "status": null, "after": 0, "limit": 1000000000}',
            (400, "malformed"),
        ),
        ("/v1/manage/usual_run", b'{"campaign": "1", "most": 1}', (400, "malformed")),
    ],
)
def test_statement_that_gateways_do_not_offer_is_refused(
    realm: Realm, path: str, body: bytes, expected: tuple[int, str]
) -> None:
    """By name, by parameters, by their types; nothing of it reaches SQL as text."""
    assert error(asked(realm, path, body.replace(b"PATH", realm.path.encode()))) == expected


@pytest.mark.thorough
def test_bodies_are_bounded_before_and_after_gzip(realm: Realm) -> None:
    """A megabyte of zeros takes a kilobyte: what counts is what it becomes."""
    zipped = {"content-encoding": "gzip"}
    bomb = gzip.compress(b" " * (manager_bodies.MAX_BYTES + 1))
    assert error(asked(realm, COUNTS, bomb, **zipped)) == (413, "too_large")
    assert error(asked(realm, COUNTS, b"no gzip", **zipped)) == (400, "malformed")
    cut = gzip.compress(b'{"path": "/", "depth": 0}')[:-4]
    assert error(asked(realm, COUNTS, cut, **zipped)) == (400, "malformed")
    with realm.gateway.peer() as peer:
        peer.send(
            f"POST {COUNTS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {realm.manager}\r\n"
            f"content-length: {manager_bodies.MAX_BYTES + 1}\r\n\r\n".encode()
        )
        assert error(peer.reply()) == (413, "too_large")


@pytest.mark.thorough
def test_pages_are_bounded_in_bytes_and_miss_nothing(realm: Realm, submitter: Client) -> None:
    """Large payloads come in more pages."""
    campaign = submitter.create_campaign(f"{realm.path}/large")
    campaign.seed({"n": n, "x": secrets.token_hex(30_000)} for n in range(150))
    words: dict[str, Any] = {"status": None, "after": 0, "limit": 1_000}
    page = submitter.queries.rows("tasks", campaign=campaign.campaign_id, **words)
    assert 0 < len(page) < 150
    assert [task.payload["n"] for task in campaign.tasks()] == list(range(150))


def test_explanation_names_nobody_elses_campaigns(realm: Realm, submitter: Client) -> None:
    """What runs next to, site tokens and bans are for who may see the whole queue."""
    other = realm.queue.create_campaign(f"/{secrets.token_hex(6)}")
    realm.queue.tokens.create("site", secrets.token_hex(6), [realm.path, other.path])
    queries = submitter.queries
    assert queries.rows("explain_tokens", path=realm.path, limit=10) == []
    assert queries.rows("explain_others", scope="/", path=realm.path, limit=10) == []
    assert queries.rows("bans") == []
    assert other.path not in str(submitter.campaign(realm.path).explain())


@pytest.mark.thorough
def test_large_inputs_are_for_submitters(
    realm: Realm, submitter: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come whole, under their digest; what is uploaded twice is sent once."""
    file = tmp_path / "library"
    with file.open("wb") as stream:
        stream.truncate(65 << 20)
    campaign = submitter.campaign(realm.path)
    stored = campaign.add_input(file)
    assert campaign.inputs() == {"library": stored}
    assert realm.campaign.inputs() == {"library": stored}
    with client(realm, "manager") as queue:
        with file.open("ab") as stream:
            stream.write(b"x")
        with pytest.raises(Forbidden, match="needs a submitter's token"):
            queue.campaign(realm.path).add_input(file)
    monkeypatch.delattr(GatewayQueries, "upload")
    with file.open("ab") as stream:
        stream.truncate(65 << 20)
    assert campaign.add_input(file) == stored


@pytest.mark.thorough
def test_seeding_outlasts_a_gateway_that_restarts(
    queue: Client, start_gateway: StartGateway
) -> None:
    """A chunk whose answer was lost is sent again, and adds nothing twice."""
    first = start_gateway()
    realm = Realm(queue, first)
    with Client(GatewayQueries(first.url, realm.token("submitter"))) as far:
        records = 9_000

        def restarting() -> Iterator[dict[str, int]]:
            for number in range(records):
                if number == 5_000:
                    first.kill()
                    start_gateway("--listen", f"127.0.0.1:{first.port}")
                yield {"n": number}

        count = far.campaign(realm.path).seed(restarting())
        assert count.read == records
    assert realm.campaign.status().waiting == records


def test_closed_queue_asks_nothing(realm: Realm) -> None:
    """No thread that still watches tasks opens a connection again."""
    queries = GatewayQueries(realm.gateway.url, realm.token("submitter"))
    others = queries.impatient()
    queries.open()
    queries.close()
    for closed in (queries, others):
        assert closed.is_closed
        with pytest.raises(Unavailable, match="is closed"):
            closed.rows("counts", path="/", depth=0)
