"""The pages: what they say, how they are built, and what a stranger cannot put into them."""

from __future__ import annotations

import json
import secrets
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest

from taskq import Campaign, CampaignSpec, Client, Handler
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.helpers.waiting import wait_until
from tests.integration.web.conftest import Page, WebProcess

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>&lt;\u202e'
BUILT_OF = {
    *("a", "article", "bdi", "body", "br", "button", "caption", "code", "dd", "details", "div"),
    *("dl", "dt", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "head"),
    *("header", "html", "input", "label", "li", "line", "link", "main", "meta", "nav", "ol"),
    *("option", "p", "path", "pre", "progress", "rect", "script", "section", "select", "small"),
    *("span", "strong", "summary", "svg", "table", "tbody", "td", "text", "th", "thead", "time"),
    *("title", "tr", "ul"),
}


@pytest.fixture(scope="module")
def hostile(shown: Client) -> Campaign:
    """Give a campaign in which everything that comes from outside is meant to break pages."""
    campaign = shown.create_campaign(
        CampaignSpec(f"/{secrets.token_hex(4)}", handler=Handler("command", argv=("true",)))
    )
    campaign.submit({"smiles": HOSTILE, HOSTILE: [HOSTILE]}, key=HOSTILE)
    campaign.seed({"n": n} for n in range(30))
    host = secrets.token_hex(4) + HOSTILE  # one of its own, since it will be banned
    agent = ScriptedAgent(shown.database, campaign.path, agent=HOSTILE, host=host)
    tasks = agent.claim(31)
    first, *others = tasks
    bad = {"error_class": "Boom", "error": HOSTILE, "tail": HOSTILE, "exit_code": 1}
    reports = [report_of(first, "failed", **bad)]
    reports += [
        report_of(task, "done", result={"score": n / 7, HOSTILE: 2.5, "text": HOSTILE})
        for n, task in enumerate(others)
    ]
    agent.exchange(reports)
    agent.close()
    with shown.database.connection() as statements:
        statements.execute("keep", holder="00000000-0000-0000-0000-000000000001", term_s=1)
    shown.fleet.ban("host", host, why=HOSTILE)
    shown.owners.give(campaign.path, HOSTILE)
    shown.owners.set_quota(HOSTILE, {"max_running": 2_000})
    return campaign


def addresses(campaign: Campaign) -> dict[str, str]:
    """Return the address of a page of each kind."""
    path = campaign.path
    return {
        "overview": "/",
        "part": "/?" + urlencode({"path": path, "levels": "3"}),
        "campaign": "/campaign?" + urlencode({"path": path}),
        "root": "/campaign?path=/&span=all&levels=2",
        "field": "/campaign?" + urlencode({"path": path, "field": HOSTILE, "order": "lowest"}),
        "hosts": "/hosts?" + urlencode({"path": path}),
        "sites": "/sites",
        "agents": "/agents",
        "owners": "/owners?" + urlencode({"path": path}),
        "heat": "/heat?" + urlencode({"path": path}),
        "task": "/task?" + urlencode({"path": path, "key": HOSTILE}),
    }


def test_pages_are_well_formed_and_take_nothing_as_markup(
    web: WebProcess, hostile: Campaign
) -> None:
    """Whatever agents and submitters write is text; nothing is inline, nothing from elsewhere."""
    for name, address in addresses(hostile).items():
        reply = web.ask(address)
        assert reply.status == 200, (name, reply.text)
        page = Page(reply.text)
        assert {tag for tag, _ in page.elements} <= BUILT_OF, name
        for tag, attributes in page.elements:
            assert not [attribute for attribute in attributes if attribute.startswith("on")], (
                name,
                attributes,
            )
            assert "style" not in attributes, (name, attributes)
            for text in ("href", "src", "action", "data-live"):
                parts = urlsplit(attributes.get(text) or "")
                assert (parts.scheme, parts.netloc) == ("", ""), (name, attributes)
            if tag == "script":
                assert attributes["src"] == "/static/live.js"
        assert "\u202e" not in reply.text, name
    page = web.page("/task", path=hostile.path, key=HOSTILE)
    assert HOSTILE.replace("\u202e", "\\u202e") in page.text


def test_pages_work_with_screen_readers_and_keyboards(web: WebProcess, hostile: Campaign) -> None:
    """One heading, landmarks, a language; headers in tables, names for what can be focused."""
    for name, address in addresses(hostile).items():
        page = Page(web.ask(address).text)
        assert len(page.all("h1")) == len(page.all("main")) == 1, name
        assert page.all("html")[0]["lang"] == "en"
        assert page.all("a")[0] == {"class": "skip", "href": "#main"}
        assert all("scope" in record for record in page.all("th")), name
        for tag, attributes in page.elements:
            named = attributes.get("aria-label") or attributes.get("aria-labelledby")
            if "tabindex" in attributes or tag in {"svg", "progress", "nav"}:
                assert named, (name, tag, attributes)
        ids = [element["id"] for _, element in page.elements if "id" in element]
        assert len(ids) == len(set(ids)), name
        assert {
            element["aria-labelledby"]
            for _, element in page.elements
            if "aria-labelledby" in element
        } <= {*ids}


def test_answers_let_a_browser_load_nothing_from_elsewhere(web: WebProcess) -> None:
    """By their headers, whatever would be in a page; nothing is kept."""
    for address in ("/", "/nothing", "/static/live.js", "/static/style.css", "/static/icon.svg"):
        headers = web.ask(address).headers
        policy = headers["content-security-policy"].split(";")
        rules = dict(name.strip().split(" ", 1) for name in policy)
        assert rules.pop("default-src") == "'none'"
        assert set(rules.values()) == {"'self'", "'none'"}
        assert {"script-src", "base-uri", "form-action", "frame-ancestors"} <= rules.keys()
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert "no-" in headers["cache-control"]


def test_campaign_page_says_what_commands_say(web: WebProcess, hostile: Campaign) -> None:
    """Counts, reasons, failures with a verdict, the best results."""
    page = web.page("/campaign", path=hostile.path, field="score")
    assert "of 31 tasks" in page.text
    assert hostile.explain().headline[1:] in page.text
    assert "Boom" in page.text
    assert "30 results, median 2.143" in page.text
    lowest = web.page("/campaign", path=hostile.path, field="score", order="lowest").text
    assert page.text.index("4.143") < page.text.index("3.857")
    assert "4.143" not in lowest.partition("The lowest")[2]


def test_campaign_page_shows_first_what_the_campaign_calls_best(
    web: WebProcess, shown: Client
) -> None:
    """Without a choice of the viewer; another choice is possible."""
    handler = Handler("command", argv=("true",))
    spec = CampaignSpec(f"/{secrets.token_hex(4)}", handler=handler, best="lowest result.score")
    campaign = shown.create_campaign(spec)
    campaign.seed({"n": n} for n in range(3))
    agent = ScriptedAgent(shown.database, campaign.path)
    agent.exchange(
        [
            report_of(task, "done", result={"cost": n, "score": n / 7})
            for n, task in enumerate(agent.claim(3))
        ]
    )
    agent.close()
    assert "The lowest of these results" in web.page("/campaign", path=campaign.path).text
    other = web.page("/campaign", path=campaign.path, field="cost").text
    assert "The highest of these results" in other


@pytest.mark.thorough
def test_campaign_page_says_what_was_hedged(web: WebProcess, shown: Client, web_dsn: str) -> None:
    """Only where something was."""
    campaign = shown.create_campaign(f"/{secrets.token_hex(4)}")
    assert "Hedged" not in web.ask(f"/campaign?path={campaign.path}").text
    with psycopg.connect(web_dsn) as connection:
        connection.execute("update taskq.campaign set hedged = 12 where path = %s", [campaign.path])
    address = f"/campaign?path={campaign.path}"
    counts = "<dt>Hedged</dt><dd>12 <small>0 at work again</small></dd>"
    wait_until(lambda: counts in web.ask(address).text)


def test_owner_is_shown_with_the_quota(web: WebProcess, hostile: Campaign) -> None:
    """On the page of a campaign by name; with what all of the owner's campaigns have on another."""
    seen = HOSTILE.replace("\u202e", "\\u202e")
    page = web.page("/campaign", path=hostile.path)
    assert f"Owner: {seen}" in page.text
    assert {"href": "/owners?" + urlencode({"path": hostile.path})} in page.all("a")
    assert f"{seen} 1 0 of 2,000 1 0 bytes" in web.page("/owners", path=hostile.path).text
    assert "Owner:" not in web.page("/campaign", path="/").text  # it is nobody's


def test_attempts_of_a_task_are_shown(web: WebProcess, hostile: Campaign) -> None:
    """With outcome, class, error and the end of the output."""
    page = web.page("/task", path=hostile.path, key=HOSTILE)
    assert "Attempt 1: failed, Boom" in page.text
    assert page.text.count("<script>alert(1)</script>") >= 4


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/campaign?path=/nope", 404),
        ("/campaign?path=nope", 400),
        ("/campaign?path=/a%00b", 400),
        ("/campaign?path=/%FF", 400),
        ("/task?path=/&key=x", 404),
        ("/task?path=/&key=%00", 400),
        ("/task?path=/", 404),
        ("/?levels=99999999999&path=/", 200),
        ("/?levels=-1", 200),
        ("/campaign?path=/&span=%3Cb%3E&field=%00&order=x", 200),
        ("/campaign?path=" + "/x" * 5_000, 400),
        ("/nothing", 404),
        ("/static/../app.py", 404),
        ("/static/%2e%2e%2fapp.py", 404),
        ("/live?path=nope", 400),
    ],
)
def test_bad_addresses_are_answered(web: WebProcess, address: str, status: int) -> None:
    """With a page that says what is wrong, and no trace."""
    reply = web.ask(address)
    assert reply.status == status, reply.text
    assert "Traceback" not in reply.text
    assert "this page has failed" not in reply.text
    Page(reply.text)


def test_page_of_a_removed_campaign_says_what_became_of_it(web: WebProcess, shown: Client) -> None:
    path = f"/{secrets.token_hex(4)}"
    shown.create_campaign(path).remove()
    reply = web.ask("/campaign?" + urlencode({"path": path}))
    assert reply.status == 404
    assert f"no campaign {path}; it was removed at 20" in Page(reply.text).text


def test_pages_change_nothing(web: WebProcess) -> None:
    """They have no other method than GET."""
    for address in ("/", "/campaign?path=/", "/live?path=/"):
        assert web.ask(address, "POST").status == 405
        assert web.ask(address, "DELETE").status == 405


@pytest.mark.thorough
def test_live_figures_of_a_page_follow_the_counters(web: WebProcess, shown: Client) -> None:
    """Figures go by the names that the page's elements have; later only those that changed."""
    campaign = shown.create_campaign(f"/{secrets.token_hex(4)}")
    name = f"{campaign.campaign_id}.waiting"
    page = web.page("/campaign", path=campaign.path)
    assert name in {record.get("data-live") for record in page.all("span")}
    (body,) = page.all("body")
    connection = web.connection()
    try:
        secret = {"authorization": f"Bearer {web.secret}"}
        connection.request("GET", body["data-live"] or "", headers=secret)
        events = connection.getresponse()
        assert events.headers["content-type"].startswith("text/event-stream")

        def next_with_its_figures() -> dict[str, str]:
            while True:  # tests before this one may have moved others
                line = events.readline().decode()
                assert line
                if line.startswith("data: {") and f'"{name}"' in line:
                    return dict(json.loads(line.removeprefix("data: ")))

        assert next_with_its_figures()[name] == "0"
        campaign.seed({"n": n} for n in range(1_234))
        seen = next_with_its_figures()
        assert seen[name] == "1,234"
        assert f"{campaign.campaign_id}.failed" not in seen
    finally:
        connection.close()
