"""Hostile clients of a gateway with a manager's or a site's token, or with results that explode.

Each attack needs something to be there, which is prepared once: a campaign that nobody works in,
with large payloads and results, and a large blob.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from benchmarks.load import sessions
from benchmarks.load.clients import session
from benchmarks.load.hostile import Attack, Script
from benchmarks.load.messages import answer, post
from benchmarks.load.work import Credentials
from benchmarks.stage import Stage
from taskq.campaign.filter_compiler import compiled
from taskq.db.tokens import Kind, Tokens
from taskq.files.blobs import DatabaseBlobs
from taskq.planning.trial import CAMPAIGN
from taskq_agent.lease_ids import LeaseIds
from taskq_agent.protocol import DONE, Hello, Report, Request
from taskq_agent.transport import MAX_BLOB_BYTES

PATH: Final = "/hostile"
_BLOB_MIB: Final = 16
#: Connections that read nothing of it, and connections with an upload that trickles.
_READERS: Final = 200
_TRICKLING: Final = 64
_FIRST_CHARS: Final = 100_000
RESULTS: Final = 50
#: As many requests as a gateway lets a token have at a time.
_AT_ONCE: Final = 4
_RESULT_CHARS: Final = 100_000
_LISTS: Final = 200
_NUMBERS: Final = 1_000
#: Beyond what a payload may have, below what a request may.
_PAYLOAD_CHARS: Final = 7 << 20

Attacks: TypeAlias = Mapping[str, tuple[Attack, tuple[Credentials, ...]]]


def of_tokens(stage: Stage) -> Attacks:
    """Prepare the attacks; return them, each with a credential for each of its connections."""
    campaign, tasks = _results(stage)
    digest, _ = DatabaseBlobs(stage.database).put(
        secrets.token_bytes(1 << 20) for _ in range(_BLOB_MIB)
    )
    manager, other, site = _token(stage, "manager"), _token(stage, "manager"), _token(stage, "site")
    find = {
        "campaign": campaign,
        "filter": compiled(f"payload.list in ({', '.join(map(str, range(-1_300, 0)))})").terms,
        "states": ["done"],
        "parts": ["payload"],
        "payloads": False,
        "tasks": None,
        "after": 0,
        "limit": 1_000,
    }
    numbers = f'{{"x":[{",".join(["1e5000"] * _NUMBERS)}]}}'
    explode = f'{{"path":"{CAMPAIGN}","tasks":[{{"payload":{numbers}}}]}}'
    payload = f'[{{"payload":{{"x":"{"y" * _PAYLOAD_CHARS}"}}}}]'
    large = f'{{"path":"{CAMPAIGN}","tasks":{payload}}}'
    stated = f'{{"path":"{CAMPAIGN}","on_conflict":"skip"}}\n{payload}'
    results = {"campaign": campaign, "tasks": tasks}
    reporters = sessions.opened(stage.database, CAMPAIGN, 2)
    return {
        "results with 1,000 numbers of 5,000 digits": (
            Attack(lambda host, own: _exploding(host, own, numbers), pause_s=0.05, times=2),
            reporters,
        ),
        "payloads with such numbers": (
            Attack(_said("tasks", explode), times=2, pause_s=0.05),
            (manager,) * 2,
        ),
        "payloads of 7 MiB": (Attack(_said("tasks", large), pause_s=0.2), (manager,)),
        "payloads of 7 MiB in statements": (
            Attack(_said("manage/submit?rest=tasks", stated), times=2, pause_s=0.05),
            (manager,) * 2,
        ),
        "filters that take long": (
            Attack(_said("manage/find_tasks", find), times=_AT_ONCE, pause_s=0.05),
            (manager,) * _AT_ONCE,
        ),
        "large answers that are not read": (
            Attack(_said("manage/results_of", results), 3, 2, pause_s=1.0, takes=False),
            (manager, manager, manager, other, other, other),
        ),
        f"heads of a blob of {_BLOB_MIB} MiB": (
            Attack(_heads(digest), times=4, bodiless=True),
            (manager,) * 4,
        ),
        "sessions opened without end": (Attack(_hellos, 8, pause_s=0.01), (site,) * 8),
        f"a blob of {_BLOB_MIB} MiB that is not read, on {_READERS}": (
            Attack(_raw(partial(_blob, digest)), _READERS, pause_s=2.0, takes=False),
            (manager,) * _READERS,
        ),
        f"uploads that trickle, on {_TRICKLING}": (
            Attack(_raw(_trickle), _TRICKLING, pause_s=2.0, takes=False),
            (reporters[0],) * _TRICKLING,
        ),
        "signing in to the pages without end": (
            Attack(_raw(_sign_in), times=2, pause_s=0.01),
            (manager,) * 2,
        ),
        "requests that hide others": (
            Attack(_raw(_two_faced), times=4, pause_s=0.01),
            (manager,) * 4,
        ),
    }


def _token(stage: Stage, kind: Kind) -> Credentials:
    paths = [PATH, CAMPAIGN]
    return Credentials(0, Tokens(stage.database).create(kind, secrets.token_hex(6), paths)[0])


def _results(stage: Stage) -> tuple[int, list[int]]:
    """Make a campaign with large payloads and results; return its id, and tasks of the latter."""
    stage.add(PATH)
    campaign = stage.client.campaign(PATH)
    campaign.seed({"list": [*range(10_000)]} for _ in range(_LISTS))
    tasks: list[int] = []
    draw = LeaseIds()
    with session(stage.database, PATH) as (transport, number):
        while got := transport.exchange(Request(number, want=RESULTS, lease=draw())).tasks:
            size = 1 if tasks else _RESULT_CHARS // 2
            reports = tuple(
                Report(task.campaign, task.task, task.lease, DONE, {"x": secrets.token_hex(size)})
                for task in got
            )
            transport.exchange(Request(number, reports))
            tasks += [task.task for task in got]
    return campaign.campaign_id, tasks[:RESULTS]


def _said(path: str, message: object) -> Callable[[str, Sequence[Credentials]], Script]:
    """Return a script that says the same at a path again and again."""

    def script(host: str, own: Sequence[Credentials]) -> Script:
        requests = [_posted(path, host, agent.token, message) for agent in own]
        while True:
            yield requests

    return script


def _posted(path: str, host: str, token: str, message: object) -> bytes:
    if not isinstance(message, str):
        return post(path, host, token, message)
    head, _, _ = post(path, host, token, {}).partition(b"content-length:")
    return head + f"content-length: {len(message)}\r\n\r\n{message}".encode()


def _heads(digest: str) -> Callable[[str, Sequence[Credentials]], Script]:
    def script(host: str, own: Sequence[Credentials]) -> Script:
        request = (
            f"HEAD /v1/blobs/{digest} HTTP/1.1\r\nhost: {host}\r\n"
            f"authorization: Bearer {own[0].token}\r\n\r\n"
        ).encode()
        while True:
            yield [request] * len(own)

    return script


def _raw(request: Callable[[str, str], str]) -> Callable[[str, Sequence[Credentials]], Script]:
    """Return a script that sends the same again and again. request: makes it of host and token."""

    def script(host: str, own: Sequence[Credentials]) -> Script:
        requests = [request(host, agent.token).encode() for agent in own]
        while True:
            yield requests

    return script


def _blob(digest: str, host: str, token: str) -> str:
    return (
        f"GET /v1/blobs/{digest} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n"
    )


def _trickle(host: str, token: str) -> str:
    """Begin an upload of 64 MiB; the rest never comes."""
    return (
        f"PUT /v1/blobs/{'0' * 64} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n"
        f"content-length: {MAX_BLOB_BYTES}\r\n\r\n{'x' * _FIRST_CHARS}"
    )


def _sign_in(host: str, token: str) -> str:
    form = f"token={token}"
    return f"POST /sign-in HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(form)}\r\n\r\n{form}"


def _two_faced(host: str, token: str) -> str:
    """Hide a request in the body of another, for a parser that knows one coding only."""
    hidden = f"GET /metrics HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n\r\n"
    return (
        f"POST /v1/beat HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\n"
        f"transfer-encoding: identity\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
    )


def _hellos(host: str, own: Sequence[Credentials]) -> Script:
    """Open a new session with each request."""

    def hello(agent: Credentials) -> bytes:
        said = Hello(str(uuid.uuid4()), CAMPAIGN, "a", "n", 1, "", 1, "")
        return post("sessions", host, agent.token, said)

    while True:
        yield [hello(agent) for agent in own]


def _exploding(host: str, own: Sequence[Credentials], numbers: str) -> Script:
    """Claim a task, and report such a result; what is refused is handed in without."""
    draw = LeaseIds()
    (agent,) = own
    reports: tuple[Any, ...] = ()
    while True:
        (response,) = yield [
            post("exchange", host, agent.token, Request(agent.session, reports, 1, draw()))
        ]
        tasks = answer(response.body or b"{}").tasks
        reports = tuple(Report(task.campaign, task.task, task.lease, DONE) for task in tasks)
        if tasks:
            said = post("exchange", host, agent.token, Request(agent.session, reports))
            body = said.partition(b"\r\n\r\n")[2].decode()
            body = body.replace('"result":null', f'"result":{numbers}')
            yield [_posted("exchange", host, agent.token, body)]
