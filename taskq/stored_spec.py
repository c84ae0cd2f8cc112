"""A campaign specification as the server-side functions take it."""

from __future__ import annotations

import json

from taskq.errors import InvalidCampaign
from taskq.spec.spec import CampaignSpec
from taskq_agent.handlers.checks import check_handler


def spec_body(spec: CampaignSpec) -> str:
    """Return a spec as the JSON text that the server-side functions take.

    Raise `InvalidCampaign` if no task could be run by its handler with its parameters.
    """
    if spec.handler is not None:
        try:
            check_handler(spec.handler.to_json(), spec.params)
        except ValueError as error:
            raise InvalidCampaign(str(error)) from None
    body = spec.to_json()
    del body["path"]
    flat = body.pop("retry") | body.pop("limits") | body.pop("resources")
    flat["memory"] = list(spec.memory)
    return json.dumps(body | flat)
