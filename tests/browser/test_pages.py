"""The pages in a real Chromium: signed in, live, acting by clicks, and on a phone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from taskq import Campaign, Client
from taskq.model.page_paths import PAGES
from tests.helpers.campaigns import servable
from tests.helpers.scripted_agent import ScriptedAgent, report_of
from tests.integration.web.conftest import WebProcess

#: Of a narrow phone, and of one that is common, in CSS pixels.
PHONES = (320, 390)
DESK = 1280
ERROR = "PDBQT parsing error: atom type Si_of_a_linker_that_no_table_has_ever_listed is not valid"
HOSTILE = "</td><script>alert(1)</script><b>\u202egnol"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Give a browser."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    assert program, "these tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        # Root, and many containers, can have no sandbox; the pages are our own.
        words = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=program, args=words)
        yield browser
        browser.close()


@pytest.fixture
def campaign(queue: Client) -> Iterator[Campaign]:
    """Give a campaign: a task is done, one waits, and two have failed, one of them oddly."""
    made = servable(queue, "/screening-of-the-spring/kinases-of-the-second-list", 4)
    long_name = "node-0042.rack-17.cluster.computing-centre.example.org"
    agent = ScriptedAgent(queue.database, made.path, host=long_name, site="computing-centre")
    done, *failing = agent.claim(3)
    reports = [report_of(done, "done", result={"score": -9.1})]
    for task, error in zip(failing, (ERROR, HOSTILE), strict=True):
        reports.append(report_of(task, "failed", error_class="exit-3", error=error, retry=False))
    agent.exchange(reports)
    yield made
    agent.close()


@pytest.fixture
def pages(dsn: str, tmp_path: Path) -> Iterator[WebProcess]:
    """Give pages that need a token."""
    process = WebProcess(dsn, tmp_path, "--require-token")
    yield process
    process.stop(expected="at the pages")


class Viewer:
    """Somebody who has signed in, in a window of their own."""

    def __init__(self, browser: Browser, pages: WebProcess, token: str, *, scripts: bool) -> None:
        self.address = f"http://127.0.0.1:{pages.port}"
        context = browser.new_context(
            java_script_enabled=scripts, viewport={"width": DESK, "height": 800}
        )
        self.page = context.new_page()
        self.wrong: list[str] = []
        self.page.on("console", lambda it: self.wrong.append(it.text))
        self.page.on("pageerror", lambda it: self.wrong.append(str(it)))
        self.page.on("dialog", lambda it: self.wrong.append(f"a dialog: {it.message}"))
        self.page.goto(self.address)
        self.wrong.clear()  # of a page that nobody may see before
        self.page.get_by_label("Manager's token").fill(token)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", name="Campaigns")).to_be_visible()

    def open(self, where: str, **query: str) -> Page:
        """Open a page."""
        answer = self.page.goto(f"{self.address}{where}?{urlencode(query)}")
        assert answer is not None
        assert answer.ok, answer.status
        return self.page

    def close(self) -> None:
        """Close the window; nothing must have gone wrong in it."""
        self.page.context.close()
        assert self.wrong == []


@pytest.fixture(params=[True, False], ids=["with scripts", "without scripts"])
def viewer(
    request: pytest.FixtureRequest, chromium: Browser, pages: WebProcess, queue: Client
) -> Iterator[Viewer]:
    """Give a manager of all campaigns."""
    token, _ = queue.tokens.create("manager", "ada", ["/"])
    somebody = Viewer(chromium, pages, token, scripts=request.param)
    yield somebody
    somebody.close()


def test_manager_retries_failed_tasks_by_clicks(viewer: Viewer, campaign: Campaign) -> None:
    """The page says how many, as whom and by which command, before anything happens."""
    page = viewer.open("/campaign", path=campaign.path)
    page.get_by_role("link", name="Retry failed tasks").click()
    expect(page.locator("main")).to_contain_text("It concerns 2 tasks. You act as ada")
    expect(page.locator("main code")).to_contain_text(f"taskq retry {campaign.path}")
    assert campaign.status().failed == 2
    page.locator("button.do").click()
    expect(page.get_by_role("status").filter(has_text="2")).to_be_visible()
    assert campaign.status().failed == 0
    page.get_by_role("link", name="Go on").click()
    expect(page.get_by_role("link", name="Retry failed tasks")).to_have_count(0)


@pytest.mark.parametrize("viewer", [True], ids=["with scripts"], indirect=True)
def test_figures_move_while_a_page_is_open(
    viewer: Viewer, campaign: Campaign, queue: Client
) -> None:
    """Without a reload."""
    page = viewer.open("/campaign", path=campaign.path)
    done = page.locator("dl div", has=page.get_by_text("Done", exact=True)).locator("dd")
    expect(done).to_have_text("1")
    agent = ScriptedAgent(queue.database, campaign.path)
    agent.done(agent.claim(1)[0])
    agent.close()
    expect(done).to_have_text("2", timeout=30_000)


@pytest.mark.parametrize("viewer", [True], ids=["with scripts"], indirect=True)
@pytest.mark.parametrize("width", PHONES)
def test_no_page_is_wider_than_a_phone(viewer: Viewer, campaign: Campaign, width: int) -> None:
    """However long paths, hosts and errors are; wide tables move within themselves."""
    viewer.page.set_viewport_size({"width": width, "height": 700})
    key, wide = next(iter(campaign.tasks())).key, {}
    for where in PAGES:
        page = viewer.open(where, path=campaign.path, **({"key": key} if where == "/task" else {}))
        wide[where] = page.evaluate("document.documentElement.scrollWidth")
    page = viewer.open("/act", do="retry", path=campaign.path)
    wide["/act"] = page.evaluate("document.documentElement.scrollWidth")
    assert {where: it for where, it in wide.items() if it > width} == {}


@pytest.mark.parametrize("viewer", [True], ids=["with scripts"], indirect=True)
@pytest.mark.parametrize("width", PHONES)
def test_why_tasks_fail_is_in_sight_on_a_phone(
    viewer: Viewer, campaign: Campaign, width: int
) -> None:
    """All of the error, without a move to the side, below a caption as wide as the page."""
    viewer.page.set_viewport_size({"width": width, "height": 700})
    page = viewer.open("/campaign", path=campaign.path)
    caption = page.get_by_text("By cause, each with its latest attempt").bounding_box()
    assert caption is not None
    assert caption["width"] > width / 2
    shown = page.get_by_text(ERROR).all()
    assert shown
    for box in [it.bounding_box() for it in shown]:
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
