"""Molecules on pages: what is drawn, for whom, and what a hostile SMILES cannot do."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import pytest

from taskq import Campaign, Client, Seed
from taskq.gateway.web import molecules
from taskq.gateway.web.molecules import MOST_CHARS, Drawer, smiles_of
from taskq.model.errors import Unavailable
from tests.helpers.campaigns import servable
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.integration.web.conftest import WebProcess

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
SCRIPT = "C |$<script>alert(1)</script>$|"
HOSTILE = [
    *("", " ", "no molecule", "C\0C", "C\nC", "<svg onload=alert(1)>", "\u202eC", SCRIPT),
    *("C" * (MOST_CHARS + 1), "C" * MOST_CHARS, "[" * MOST_CHARS, "(" * 400 + "C", "C1CC"),
    *("C%99", ".".join("C" * 200), "[H]" * 100, "*" * MOST_CHARS),
]


@pytest.fixture(scope="module")
def docked(shown: Client) -> Campaign:
    """Give a campaign of three ligands, one of which is none."""
    campaign = servable(shown, f"/{secrets.token_hex(4)}")
    ligands = (ASPIRIN, "c1ccccc1", HOSTILE[5])
    campaign.seed(Seed({"ligand": {"SMILES": name}}, f"l{n}") for n, name in enumerate(ligands))
    agent = ScriptedAgent(shown.database, campaign.path)
    tasks = agent.claim(3)
    agent.exchange([report_of(task, "done", result={"score": n}) for n, task in enumerate(tasks)])
    agent.close()
    return campaign


def picture_of(smiles: str) -> str:
    """Return the address of a picture."""
    return "/molecule?" + urlencode({"smiles": smiles})


def test_best_hits_have_pictures(web: WebProcess, docked: Campaign) -> None:
    """Those of which a field is a SMILES; a reader of the page has it as text."""
    page = web.page("/campaign", path=docked.path, field="score")
    assert {record["src"] for record in page.all("img")} == {
        picture_of(ASPIRIN),
        picture_of("c1ccccc1"),
    }
    assert ASPIRIN in page.text
    assert "onload" not in page.text
    page = web.page("/task", path=docked.path, key="l0")
    assert [record["src"] for record in page.all("img")] == [picture_of(ASPIRIN)]
    reply = web.ask(picture_of(ASPIRIN))
    assert (reply.status, reply.headers["content-type"]) == (200, "image/svg+xml")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'")
    root = ET.fromstring(reply.text)  # noqa: S314  # it is ours
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "rect", "path", "ellipse", "polygon", "text", "tspan"}


def test_hostile_smiles_are_no_pictures(web: WebProcess) -> None:
    """And what is one is drawn afterwards as before."""
    for name in HOSTILE:
        reply = web.ask(picture_of(name))
        assert (name, reply.status) == (name, 404)
        assert "<script>" not in reply.text
        assert "<svg" not in reply.text
    assert web.ask(picture_of("CCO")).status == 200


def test_pictures_are_for_those_who_may_look(guarded: WebProcess) -> None:
    """Nobody else makes this machine draw."""
    assert guarded.ask(picture_of(ASPIRIN)).status == 401


def test_smiles_are_found_by_the_name_of_their_field() -> None:
    """In the payload first, then in the result; as deep as pages look."""
    assert smiles_of({"smiles": 5, "x": "CC"}, {"best_smiles": "CCO"}) == "CCO"
    assert smiles_of({"a": {"b": {"smiles": "CC"}}}, None) == "CC"
    assert smiles_of({"a": {"b": {"c": {"smiles": "CC"}}}}, ["CC"]) == ""
    assert [smiles_of({"smiles": name}) for name in HOSTILE[:9]] == [""] * 9


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run what is asynchronous."""
    asyncio.run(asyncio.wait_for(work, 120))


def program(*lines: str) -> tuple[str, ...]:
    """Return one that says that it has begun, and does something for each molecule."""
    head = ["import sys, time", "print('null', flush=True)", "for line in sys.stdin:"]
    return (sys.executable, "-c", "\n".join([*head, *(f"    {line}" for line in lines)]))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "act",
    ["time.sleep(600)", "sys.exit(1)", "print('x' * 10**6, flush=True)", "print('{', flush=True)"],
)
def test_process_that_fails_is_replaced(act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has ended it is not tried again, and all else is drawn."""
    monkeypatch.setattr(molecules, "DRAW_S", 2.0)
    act = f"{act} if 'CC' in line else print('\"good\"', flush=True)"

    async def work() -> None:
        drawer = Drawer(program(act))
        try:
            for _ in range(3):
                assert await drawer.draw("CC") is None
            assert await drawer.draw("N") == b"good"
        finally:
            await drawer.close()

    run(work())


def test_those_who_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a request to come again; what is asked for twice is drawn once."""
    monkeypatch.setattr(molecules, "MOST_WAITING", 2)

    async def work() -> None:
        drawer = Drawer(program("time.sleep(0.2)", "print(line.strip(), flush=True)"))
        try:
            asked = [asyncio.ensure_future(drawer.draw(name)) for name in ("C", "C", "N")]
            got = await asyncio.gather(*asked, return_exceptions=True)
            assert got[:2] == [b"C", b"C"]
            assert isinstance(got[2], Unavailable)
            assert await drawer.draw("N") == b"N"
        finally:
            await drawer.close()

    run(work())


def test_without_rdkit_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no process is begun."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)

    async def work() -> None:
        drawer = Drawer(("false",))
        assert not drawer.can_draw
        assert await drawer.draw("CC") is None

    run(work())
