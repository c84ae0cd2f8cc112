"""The front page: what is wrong now, and who knows of it."""

from __future__ import annotations

import secrets

import psycopg
from psycopg.rows import dict_row

from taskq import Client
from tests.helpers.campaigns import servable
from tests.helpers.postgres import keep, value
from tests.integration.notify.support import look
from tests.integration.web.conftest import WebProcess


def test_front_page_shows_what_is_wrong_and_who_knows_of_it(
    guarded: WebProcess, shown: Client, web_dsn: str
) -> None:
    """Each viewer sees that of the campaigns of the token, escaped, with its commands."""
    mine, other = f"/{secrets.token_hex(4)}", f"/{secrets.token_hex(4)}"
    tokens = {}
    for path in (mine, other):
        servable(shown, path, 3).pause()
        tokens[path] = shown.tokens.create("manager", path[1:], [path])[0]
    with psycopg.connect(web_dsn, autocommit=True, row_factory=dict_row) as postgres:
        keep(postgres)
        look(shown.database, postgres)
        ids = {
            path: value(
                postgres,
                "select trouble_id from taskq.known_trouble"
                " where watched = %s and code = 'paused' and gone_at is null",
                path,
            )
            for path in (mine, other)
        }
    shown.troubles.acknowledge(ids[other], note="<script>alert(1)</script>")
    pages = {
        path: guarded.ask("/", authorization=f"Bearer {token}").text
        for path, token in tokens.items()
    }
    assert f'id="trouble-{ids[mine]}"' in pages[mine]
    assert f"taskq troubles acknowledge {ids[mine]}" in pages[mine]
    assert "Wrong now" in pages[mine]
    assert other not in pages[mine]
    assert "Nothing that nobody knows of." in pages[other]
    assert "Acknowledged by" in pages[other]
    assert "&lt;script&gt;alert" in pages[other]
    assert "<script>alert" not in pages[other]


def test_without_a_keeper_the_front_page_shows_the_reasons_of_now(
    web: WebProcess, shown: Client
) -> None:
    """For everybody who knows the address: of a campaign at which nobody looks."""
    path = f"/{secrets.token_hex(4)}"
    servable(shown, path, 3).pause()
    page = web.page("/", path=path)
    assert "Wrong now" in page.text
    assert "No keeper looks here" in page.text
    codes = {attributes.get("data-code") for attributes in page.all("li")}
    assert "paused" in codes
