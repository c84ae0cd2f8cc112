"""Acts in pages: confirmed, under the viewer's token, once, and from our own pages only."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.rows import dict_row

from taskq import Client
from taskq.gateway.web import acts
from taskq.gateway.web.acting import MOST_ACTS
from tests.fixtures.logins import Staff
from tests.helpers.campaigns import servable
from tests.helpers.postgres import keep, value
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.integration.notify.support import look
from tests.integration.web.conftest import Page, Reply, WebProcess

FORM = {"content_type": "application/x-www-form-urlencoded"}
OURS = {"sec_fetch_site": "same-origin"}
HOSTILE = '"><script>alert(1)</script>\u202e'


class Viewer:
    """A browser that has signed in with a token. name: the token's."""

    def __init__(self, web: WebProcess, queue: Client, path: str) -> None:
        self.web = web
        self.name = f"ada-{secrets.token_hex(4)}"
        self.token_id, self.text = 0, ""
        self.text = queue.tokens.create("manager", self.name, [path])[0]
        reply = web.ask("/sign-in", "POST", urlencode({"token": self.text}), **FORM)
        assert reply.status == 303
        self.cookie = reply.headers["set-cookie"].partition(";")[0]

    def get(self, address: str, **query: str) -> Reply:
        """Return the answer to a page's request."""
        asked = address + ("?" + urlencode(query) if query else "")
        return self.web.ask(asked, cookie=self.cookie)

    def form(self, **query: str) -> dict[str, str]:
        """Return the fields of the form that confirms an act."""
        reply = self.get("/act", **query)
        assert reply.status == 200, reply.text
        return fields(reply)

    def send(self, form: dict[str, str], **headers: str) -> Reply:
        """Send the form that confirms an act."""
        headers = headers or OURS
        return self.web.ask("/do", "POST", urlencode(form), cookie=self.cookie, **FORM, **headers)


def fields(reply: Reply) -> dict[str, str]:
    """Return the hidden fields of a page."""
    page = Page(reply.text)
    hidden = [it for it in page.all("input") if it.get("type") == "hidden"]
    return {str(it["name"]): str(it["value"]) for it in hidden}


@pytest.fixture
def path(shown: Client) -> str:
    """Give a campaign with three tasks."""
    return servable(shown, f"/{secrets.token_hex(4)}", 3).path


@pytest.fixture
def viewer(acting: WebProcess, shown: Client, path: str) -> Viewer:
    """Give a viewer who may act in the campaign."""
    return Viewer(acting, shown, path)


@pytest.fixture(scope="module")
def acting(web_dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebProcess]:
    """Give pages in which viewers may act; what they did is in its log."""
    folder = tmp_path_factory.mktemp("acting")
    process = WebProcess(web_dsn, folder, "--require-token")
    try:
        yield process
    finally:
        process.stop(expected="at the pages")


def fail(queue: Client, path: str, tasks: int, **place: str) -> None:
    """Have tasks of a campaign fail."""
    agent = ScriptedAgent(queue.database, path, **place)
    for task in agent.claim(tasks):
        agent.exchange(
            [report_of(task, "failed", error_class="exit-3", error=HOSTILE, retry=False)]
        )
    agent.close()


def known_of(dsn: str, trouble: object) -> tuple[str | None, bool, bool]:
    """Return who knows of a trouble, and whether it is acknowledged, and snoozed."""
    with psycopg.connect(dsn) as postgres:
        row = postgres.execute(
            "select by, acknowledged_at is not null, snoozed_until is not null"
            " from taskq.known_trouble where trouble_id = %s",
            [trouble],
        ).fetchone()
    assert row is not None
    return (row[0], row[1], row[2])


def log_of(web: WebProcess) -> str:
    """Return what a server has logged."""
    return web.log.read_text()


def test_act_is_shown_confirmed_done_and_logged(viewer: Viewer, shown: Client, path: str) -> None:
    """With its command and the number of tasks; the look changes nothing."""
    assert "/act?do=pause" in viewer.get("/campaign", path=path).text
    asked = Page(viewer.get("/act", do="pause", path=path).text)
    assert f"taskq campaign pause {path}" in asked.text
    assert "3 tasks" in asked.text
    assert viewer.name in asked.text
    assert shown.campaign(path).status().state == "open"
    done = viewer.send(viewer.form(do="pause", path=path))
    assert (done.status, f"{path} is paused" in Page(done.text).text) == (200, True)
    assert shown.campaign(path).status().state == "paused"
    assert f"{viewer.name} (token " in log_of(viewer.web)
    assert f"taskq campaign pause {path}: {path} is paused" in log_of(viewer.web)
    assert "/act?do=resume" in viewer.get("/campaign", path=path).text
    assert viewer.send(viewer.form(do="resume", path=path)).status == 200
    assert shown.campaign(path).status().state == "open"


def test_each_act_does_what_its_command_does(viewer: Viewer, shown: Client, path: str) -> None:
    """Retries of tasks and classes, priorities, cancels of a task and of all."""
    campaign = shown.campaign(path)
    (key, other, _) = [task.key for task in campaign.tasks()]
    assert viewer.send(viewer.form(do="prioritise", path=path, priority="7")).status == 200
    assert [task.priority for task in campaign.tasks()] == [7, 7, 7]
    assert viewer.send(viewer.form(do="cancel", path=path, key=key)).status == 200
    assert campaign.task(key).status == "cancelled"
    assert viewer.get("/task", path=path, key=key).text.count("/act?do=retry") == 1
    form = viewer.form(do="retry", path=path, key=key, status="cancelled")
    assert viewer.send(form).status == 200
    assert campaign.task(key).status == "waiting"
    assert viewer.send(viewer.form(do="cancel", path=path)).status == 200
    assert campaign.status().state == "cancelled"
    assert campaign.task(other).status == "cancelled"


@pytest.mark.thorough
def test_failed_tasks_of_a_class_are_retried(viewer: Viewer, shown: Client) -> None:
    """The page of the campaign offers it for each class that it shows."""
    campaign = servable(shown, f"/{secrets.token_hex(4)}", 2)
    mine = Viewer(viewer.web, shown, campaign.path)
    fail(shown, campaign.path, 2)
    assert "class=exit-3" in mine.get("/campaign", path=campaign.path).text
    none = Page(mine.get("/act", do="retry", path=campaign.path, **{"class": "other"}).text)
    assert "0 tasks" in none.text
    assert mine.send(mine.form(do="retry", path=campaign.path, **{"class": "exit-3"})).status == 200
    assert campaign.status().waiting == 2


def test_trouble_is_acknowledged_under_the_name_of_the_token(
    viewer: Viewer, shown: Client, web_dsn: str, path: str
) -> None:
    """Snoozed too, and opened again; by nobody whose token is for another campaign."""
    shown.campaign(path).pause()
    with psycopg.connect(web_dsn, autocommit=True, row_factory=dict_row) as postgres:
        keep(postgres)
        look(shown.database, postgres)
        trouble = value(
            postgres,
            "select trouble_id from taskq.known_trouble"
            " where watched = %s and code = 'paused' and gone_at is null",
            path,
        )
    about = {"path": path, "trouble": f"{trouble}"}
    assert viewer.send(viewer.form(do="snooze", **about, **{"for": "2h"})).status == 200
    assert known_of(web_dsn, trouble) == (viewer.name, False, True)
    assert viewer.send(viewer.form(do="reopen", **about)).status == 200
    assert viewer.send(viewer.form(do="acknowledge", **about)).status == 200
    assert known_of(web_dsn, trouble) == (viewer.name, True, False)
    elsewhere = servable(shown, f"/{secrets.token_hex(4)}").path
    other = Viewer(viewer.web, shown, elsewhere)
    assert other.get("/act", do="reopen", path=elsewhere, trouble=f"{trouble}").status == 404
    assert other.get("/act", do="reopen", **about).status == 403


def test_hosts_are_banned_for_all_with_tokens_of_the_whole_queue(
    acting: WebProcess, viewer: Viewer, shown: Client, path: str
) -> None:
    """Under the name of the token; the ban is for a day, and is lifted by the page of the hosts."""
    host = f"n-{secrets.token_hex(4)}{HOSTILE}"
    fail(shown, path, 3, host=host)
    about = {"kind": "host", "name": host, "why": HOSTILE}
    assert viewer.get("/act", do="ban", path="/", **about).status == 403
    whole = Viewer(acting, shown, "/")
    form = whole.form(do="ban", path="/", **about)
    assert viewer.send(form).status == 403
    assert whole.send(form).status == 200
    (ban,) = [it for it in shown.fleet.bans() if it.name == host]
    assert (ban.login, ban.path, ban.why) == (whole.name, "/", HOSTILE)
    assert ban.until is not None
    assert "\u202e" not in log_of(acting)
    assert whole.get("/act", do="unban", path=path, kind="host", name=host).status == 404
    assert viewer.get("/act", do="unban", path="/", kind="host", name=host).status == 403
    assert whole.send(whole.form(do="unban", path="/", kind="host", name=host)).status == 200
    assert host not in [it.name for it in shown.fleet.bans()]
    assert whole.get("/act", do="ban", kind="rack", name=host).status == 400


def test_hosts_are_banned_for_its_campaign_with_a_token_of_a_part(
    viewer: Viewer, shown: Client, path: str
) -> None:
    """The page of its hosts offers to lift that ban, and not one that holds for all."""
    host = f"n-{secrets.token_hex(4)}"
    fail(shown, path, 3, host=host)
    place = {"kind": "host", "name": host}
    assert viewer.send(viewer.form(do="ban", path=path, why="its disk", **place)).status == 200
    (ban,) = [it for it in shown.fleet.bans() if it.name == host]
    assert (ban.login, ban.path, ban.why) == (viewer.name, path, "its disk")
    assert f"Lift the ban of {host}" in viewer.get("/hosts", path=path).text
    assert viewer.send(viewer.form(do="unban", path=path, **place)).status == 200
    assert host not in [it.name for it in shown.fleet.bans()]


@pytest.mark.thorough
def test_no_act_without_the_right(
    acting: WebProcess, web: WebProcess, shown: Client, viewer: Viewer, path: str
) -> None:
    """No other campaign's, none by the secret of an address, none without having signed in."""
    other = servable(shown, f"/{secrets.token_hex(4)}", 1).path
    assert viewer.get("/act", do="pause", path=other).status == 403
    form = viewer.form(do="pause", path=path)
    assert viewer.send(form | {"path": other}).status == 403
    assert shown.campaign(other).status().state == "open"
    for address in ("/act?do=pause&path=" + path,):
        assert web.ask(address).status == 403
        assert acting.ask(address).status == 401
    assert web.ask("/do", "POST", urlencode(form), **FORM, **OURS).status == 403
    assert acting.ask("/do", "POST", urlencode(form), **FORM, **OURS).status == 401
    assert "/act?" not in web.ask("/campaign?path=" + path).text
    shown.tokens.revoke(viewer.name)
    assert viewer.send(form).status == 401
    assert shown.campaign(path).status().state == "open"


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec_fetch_site": "cross-site", "origin": "http://127.0.0.1"},
    ],
)
def test_page_of_somebody_else_makes_no_browser_act(
    viewer: Viewer, shown: Client, path: str, headers: dict[str, str]
) -> None:
    """Even with a ticket that it cannot know; and the cookie is for our own pages."""
    assert viewer.send(viewer.form(do="pause", path=path), **headers).status == 403
    assert shown.campaign(path).status().state == "open"


def test_form_without_a_ticket_of_the_viewer_does_nothing(
    viewer: Viewer, shown: Client, path: str
) -> None:
    """Not with another viewer's, for another act or other numbers, or by GET: it is asked anew."""
    form = viewer.form(do="pause", path=path)
    stranger = Viewer(viewer.web, shown, path).form(do="pause", path=path)
    for wrong in (
        {"do": "pause", "path": path},
        form | {"ticket": "0" * 64},
        form | {"ticket": "é"},
        form | {"do": "cancel"},
        form | {"seen": "999"},
        form | {"at": "99999999999"},
        form | {"nonce": "0"},
        stranger,
    ):
        reply = viewer.send(wrong)
        assert reply.status == 409, wrong
        assert "Nothing was changed" in reply.text
    assert viewer.get("/do", **form).status == 405
    assert viewer.get("/act", **form).status == 200
    assert shown.campaign(path).status().state == "open"
    assert viewer.send(form).status == 200


def test_page_that_has_become_wrong_is_confirmed_anew(
    viewer: Viewer, shown: Client, path: str
) -> None:
    """It would concern more tasks, or another campaign of the same name."""
    form = viewer.form(do="cancel", path=path)
    shown.campaign(path).submit({"n": 9}, key="late")
    reply = viewer.send(form)
    assert (reply.status, "It concerned 3 before" in reply.text) == (409, True)
    assert shown.campaign(path).status().unfinished == 4
    anew = fields(reply)
    shown.campaign(path).remove()
    servable(shown, path, 4)
    assert viewer.send(anew).status == 409
    assert shown.campaign(path).status().unfinished == 4
    assert viewer.send(viewer.form(do="cancel", path=path)).status == 200


def test_double_click_acts_once(viewer: Viewer, shown: Client, path: str) -> None:
    """Both get the same answer; so does a reload, after somebody has done the opposite."""
    form = viewer.form(do="cancel", path=path)
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda _: viewer.send(form), range(4)))
    assert {reply.status for reply in replies} == {200}
    assert len({Page(reply.text).text for reply in replies}) == 1
    shown.campaign(path).resume()
    assert viewer.send(form).status == 200
    assert shown.campaign(path).status().state == "open"
    assert log_of(viewer.web).count(f"taskq campaign cancel {path}") == 1


def test_strangers_text_in_an_act_is_text(viewer: Viewer, shown: Client, path: str) -> None:
    """Keys of tasks and classes of errors, in the page and in the command."""
    shown.campaign(path).submit({"n": 9}, key=HOSTILE)
    for query in ({"key": HOSTILE}, {"class": HOSTILE}, {"priority": HOSTILE}, {"do": HOSTILE}):
        asked = {"do": "retry", "path": path, **query}
        asked |= {"do": "prioritise"} if "priority" in query else {}
        asked |= {"status": "cancelled"} if "key" in query else {}
        reply = viewer.get("/act", **asked)
        assert reply.status in {200, 400}
        assert "<script>alert" not in reply.text
        assert "\u202e" not in Page(reply.text).text
    assert viewer.send(viewer.form(do="cancel", path=path, key=HOSTILE)).status == 200
    assert shown.campaign(path).task(HOSTILE).status == "cancelled"
    assert "\u202e" not in log_of(viewer.web)


def test_field_that_an_act_does_not_take_is_refused(viewer: Viewer, path: str) -> None:
    """A form that names a class cancels no more than that: it cancels nothing."""
    for odd in (
        {"do": "cancel", "class": "exit-3"},
        {"do": "pause", "key": "k"},
        {"do": "prioritise", "priority": "1", "class": "exit-3"},
        {"do": "retry", "key": "k", "class": "exit-3"},
    ):
        assert viewer.get("/act", path=path, **odd).status == 400, odd


def test_act_on_very_many_tasks_is_left_to_the_command(
    viewer: Viewer, shown: Client, path: str
) -> None:
    """A page would hold the server; the number is known from counters, and pausing is possible."""
    shown.campaign(path).seed({"m": n} for n in range(acts.MOST_TASKS))
    for verb in ({"do": "cancel"}, {"do": "prioritise", "priority": "1"}):
        reply = viewer.get("/act", path=path, **verb)
        assert reply.status == 200
        assert "10,003 tasks" in reply.text
        assert "the command does it" in reply.text
        assert "<button" not in reply.text.partition("<main")[2]
    assert viewer.send({"do": "cancel", "path": path}).status == 409
    assert viewer.send(viewer.form(do="pause", path=path)).status == 200


@pytest.mark.thorough
def test_login_without_the_role_offers_no_acts(staff: Staff, tmp_path: Path) -> None:
    """As before there were any; with the role `manager` as well it does."""
    campaign = servable(staff.owner, "/a", 1)
    for roles, may in ((["web"], False), (["web", "manager"], True)):
        folder = tmp_path / f"{len(roles)}"
        folder.mkdir()
        process = WebProcess(staff.login(*roles).dsn, folder, "--require-token")
        try:
            mine = Viewer(process, staff.owner, "/a")
            assert ("/act?" in mine.get("/campaign", path="/a").text) is may
            assert mine.get("/act", do="pause", path="/a").status == (200 if may else 403)
            assert mine.send({"do": "pause", "path": "/a"}).status == (409 if may else 403)
            assert campaign.status().state == "open"
        finally:
            process.stop()


@pytest.mark.thorough
def test_token_acts_so_often_at_most(viewer: Viewer, shown: Client, path: str) -> None:
    """Within the life of a ticket; others act on, and what was asked anew is not counted."""
    other = Viewer(viewer.web, shown, path)
    for number in range(MOST_ACTS):
        assert viewer.send({"do": "pause", "path": path}).status == 409
        verb = "resume" if number % 2 else "pause"
        assert viewer.send(viewer.form(do=verb, path=path)).status == 200
    assert viewer.send(viewer.form(do="pause", path=path)).status == 503
    assert shown.campaign(path).status().state == "open"
    assert other.send(other.form(do="pause", path=path)).status == 200
