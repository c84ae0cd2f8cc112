"""Requests drawn from the OpenAPI document: whatever they hold, the answer is one that it names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from taskq.gateway.app import document
from taskq_agent.archive import OUTPUT, heading
from taskq_agent.lease_ids import new_lease
from taskq_agent.protocol import LONGEST_WAIT_S
from tests.fixtures.gateways import Realm
from tests.integration.gateway.peers import fence, hello, report_of

pytestmark = pytest.mark.thorough

#: Few, since each is a request to a real gateway; for a longer look raise it here.
EXAMPLES: Final = 30
#: An exchange that waits for a task that never comes would take minutes with its examples.
SHORT_WAIT_S: Final = 0.05
CHECKS: Final = [
    checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SCHEMA: Final = schemathesis.openapi.from_dict(document())
OPERATIONS: Final[dict[str, Any]] = {
    operation.label: operation
    for operation in (it.ok() for it in SCHEMA.get_all_operations())  # type: ignore[union-attr]  # the document is ours
}


class Client:
    """Sends cases with the credential that each operation needs, and checks the answers."""

    def __init__(self, realm: Realm, session: requests.Session) -> None:
        self._realm = realm
        self._session = session
        self._tokens = {"site": realm.site, "manager": realm.manager}
        self.renew()

    def renew(self) -> None:
        """Get another agent's session."""
        agent = self._realm.agent()
        self._tokens["session"] = agent.token
        agent.peer.close()

    def status(self, case: Any, credential: str = "") -> int:
        """Return the status of an answer that is as the document says."""
        (needs,) = (case.operation.definition.raw.get("security") or [{"": []}])[0]
        token = self._tokens.get(credential or needs)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = case.call(
            base_url=self._realm.gateway.url, session=self._session, headers=headers
        )
        case.validate_response(response, checks=CHECKS)
        return int(response.status_code)


@pytest.fixture
def client(realm: Realm) -> Iterator[Client]:
    """Give a client with tokens that are valid."""
    with requests.Session() as session:
        yield Client(realm, session)


@pytest.mark.parametrize("label", OPERATIONS)
@given(data=st.data())
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[*HealthCheck],
)
def test_anything_is_answered_as_documented(
    realm: Realm, client: Client, label: str, data: st.DataObject
) -> None:
    """No 5xx, no status, type or body that the document does not name."""
    operation = OPERATIONS[label]
    modes = [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if operation.body else [])]
    case = data.draw(operation.as_strategy(data.draw(st.sampled_from(modes))))
    if isinstance(case.body, dict) and data.draw(st.booleans()):
        # By chance alone no path would ever be that of a campaign.
        for name in {"campaign", "path"} & case.body.keys():
            case.body[name] = realm.path
        wait_s = case.body.get("wait_s")
        if isinstance(wait_s, (int, float)) and 0 < wait_s <= LONGEST_WAIT_S:
            case.body["wait_s"] = SHORT_WAIT_S
    if client.status(case) == requests.codes.gone:
        client.renew()


def right_requests(realm: Realm) -> dict[str, dict[str, Any]]:
    """Return what each operation must take, in an order in which all can."""
    agent = realm.agent()
    realm.campaign.change(replace(realm.campaign.spec(), output_bytes=100_000))
    realm.seed(2)
    (task,) = agent.claim()
    agent.peer.close()
    data = heading(OUTPUT, task["campaign"], task["task"])
    digest = {"digest": hashlib.sha256(data).hexdigest()}
    return {
        "POST /v1/sessions": {"body": hello(realm.path)},
        "POST /v1/exchange": {
            "body": {"want": 1, "lease": new_lease(), "reports": [report_of(task)]},
        },
        "POST /v1/beat": {"body": {"held": [], "drawn": new_lease()}},
        "PUT /v1/blobs/{digest}": {"path_parameters": digest, "body": data},
        "GET /v1/blobs/{digest}": {
            "path_parameters": digest,
            "headers": {"Range": "bytes=1-"},
            "credential": "manager",
        },
        "POST /v1/checkpoint": {"body": fence(task)},
        "POST /v1/output": {"body": fence(task) | digest | {"size": len(data)}},
        "POST /v1/manage/{query}": {
            "path_parameters": {"query": "counts"},
            "body": {"path": realm.path, "depth": 0},
        },
        "GET /metrics": {},
        "GET /healthz": {},
        "GET /readyz": {},
        "GET /taskq-agent.pyz": {},
        "GET /taskq-agent.pyz.sha256": {},
        "DELETE /v1/session": {},
    }


def test_every_operation_does_what_it_is_for(realm: Realm, client: Client) -> None:
    """A right request gets a 2xx, and a body as the document says."""
    wanted = right_requests(realm)
    assert wanted.keys() == OPERATIONS.keys()
    for label, parts in wanted.items():
        credential = parts.pop("credential", "")
        media_type = next(iter(OPERATIONS[label].get_request_payload_content_types()), None)
        case = OPERATIONS[label].Case(**parts, media_type=media_type if "body" in parts else None)
        assert client.status(case, credential) // 100 == 2, label
