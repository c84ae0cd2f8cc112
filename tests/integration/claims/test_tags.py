"""Tags in the database: who meets a requirement, and what is let in."""

from __future__ import annotations

import json

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskq import Client
from taskq.model.errors import UsageError
from taskq.model.requirements import check_offers, check_requires
from tests.helpers.postgres import Postgres, value

OFFERED = "select taskq.offered(%s::text[], %s::text[])"


@pytest.mark.parametrize(
    ("requires", "offers"),
    [
        ([], []),
        ([], ["gpu"]),
        (["gpu"], ["gpu"]),
        (["gpu"], ["cpu", "gpu=a100"]),
        (["gpu=a100"], ["gpu=a100"]),
        (["gpu=a100"], ["gpu=h100", "gpu=a100"]),
        (["mem=16"], ["mem=16.0"]),
        (["mem=+16"], ["mem=016"]),
        (["mem>=16"], ["mem=16"]),
        (["mem>=16"], ["mem=100"]),
        (["mem>=-1.5"], ["mem=-1"]),
        (["gpu", "mem>=16"], ["mem=64", "gpu"]),
        (["path=/a:b@c"], ["path=/a:b@c"]),
        (["v=2-rc1"], ["v=2-rc1"]),
    ],
)
def test_requirements_are_met(requires: list[str], offers: list[str], postgres: Postgres) -> None:
    """All of them, each by one of the offers; numbers compare as numbers."""
    assert value(postgres, OFFERED, requires, offers) is True


@pytest.mark.parametrize(
    ("requires", "offers"),
    [
        (["gpu"], []),
        (["gpu"], ["gpus"]),
        (["gpu"], ["GPU"]),
        (["gpu=a100"], ["gpu"]),
        (["gpu=a100"], ["gpu=A100"]),
        (["mem>=16"], ["mem"]),
        (["mem>=16"], ["mem=9"]),
        (["mem>=16"], ["mem=much"]),
        (["mem>=16"], ["mem=15.999"]),
        (["mem=16"], ["mem=16GB"]),
        (["gpu", "mem>=16"], ["mem=64"]),
        (["mem.max>=1"], ["memXmax=5"]),
    ],
)
def test_requirements_are_not_met(
    requires: list[str], offers: list[str], postgres: Postgres
) -> None:
    """What is not said is not there."""
    assert value(postgres, OFFERED, requires, offers) is False


@given(
    tag=st.text(max_size=8)
    | st.text("aZ9_.-=>+ \n", max_size=10)
    | st.from_regex(r"[a-z]{1,3}(>?=[-+0-9.a]{0,5})?"),
    requires=st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_database_takes_the_tags_that_the_library_takes(
    tag: str, requires: bool, postgres: Postgres
) -> None:
    """A client that speaks SQL gets no further, and no less far."""
    check, what = (check_requires, "requires") if requires else (check_offers, "offers")
    ask = "select taskq.tags(%s, %s::text[])"
    try:
        check([tag])
    except UsageError:
        if "\x00" not in tag:  # that one does not even get there
            with pytest.raises(psycopg.Error) as refused:
                value(postgres, ask, what, [tag])
            assert refused.value.sqlstate == "TQ400"
    else:
        assert value(postgres, ask, what, [tag]) == [tag]


@pytest.mark.parametrize(
    "spec",
    [
        '{"requires": ["1gpu"]}',
        '{"requires": [null]}',
        '{"requires": "gpu"}',
        '{"requires": null}',
        json.dumps({"requires": [f"t{n}" for n in range(33)]}),
        '{"weight": 0}',
        '{"weight": 1001}',
        '{"weight": "NaN"}',
        '{"max_running": 0}',
        '{"max_running": 1000001}',
    ],
)
def test_campaign_that_cannot_be_is_refused_by_the_database(queue: Client, spec: str) -> None:
    """A client that speaks SQL gets no further than one that uses the library."""
    with pytest.raises(UsageError):
        queue.database.value("create_campaign", path="/a", spec=spec)
