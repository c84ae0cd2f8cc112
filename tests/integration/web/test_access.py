"""Who may look: who knows the address, or has a manager's token; never a page of somebody else."""

from __future__ import annotations

import secrets
import threading
import uuid
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest

from taskq import CampaignSpec, Client, Handler
from taskq.gateway.web import access as access_of_pages
from taskq.gateway.web.access import Access
from taskq.model.errors import Unauthorized
from tests.fixtures.logins import Staff
from tests.helpers.command_line import CommandLine
from tests.helpers.scripted_agent import ScriptedAgent
from tests.helpers.waiting import wait_until
from tests.integration.web.conftest import WebProcess

FORM = {"content_type": "application/x-www-form-urlencoded"}


@pytest.fixture
def paths(shown: Client) -> tuple[str, str]:
    """Give the paths of two campaigns."""
    made = f"/{secrets.token_hex(4)}", f"/{secrets.token_hex(4)}"
    for path in made:
        shown.create_campaign(path)
    return made


def token(queue: Client, path: str, kind: str = "manager") -> str:
    """Return a new token."""
    return queue.tokens.create(kind, secrets.token_hex(4), [path])[0]


def sign_in(web: WebProcess, text: str, **headers: str) -> tuple[int, str]:
    """Send the form; return the status of the answer, and the cookie."""
    reply = web.ask("/sign-in", "POST", urlencode({"token": text}), **FORM, **headers)
    return reply.status, reply.headers.get("set-cookie", "").partition(";")[0]


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1", "LOCALHOST", "[::1]:8078"])
def test_this_machine_needs_no_token(web: WebProcess, host: str) -> None:
    """By each of its names."""
    assert web.ask("/", host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example:8078"},
        {"host": "localhost.evil.example"},
        {"host": "10.0.0.1"},
        {"host": "127.0.0.1", "x_forwarded_for": "203.0.113.1"},
        {"host": "127.0.0.1", "forwarded": "for=203.0.113.1"},
        {"host": "127.0.0.1", "via": "1.1 proxy"},
    ],
)
def test_other_names_and_proxies_are_refused_without_tokens(
    web: WebProcess, headers: dict[str, str]
) -> None:
    """A stranger's name may lead here, and a proxy to everybody."""
    for address in ("/", "/campaign?path=/", "/live?path=/"):
        reply = web.ask(address, **headers)
        assert reply.status == 403
        assert "--require-token" in reply.text


def test_without_the_printed_address_nothing_is_shown(web: WebProcess) -> None:
    """It signs the browser in, which goes on without the secret and keeps a cookie of this port."""
    for secret in ("", "x", web.secret[:-1], web.secret + "x"):
        for address in ("/", "/campaign?path=/", "/live?path=/", "/hosts", "/molecule?smiles=C"):
            assert web.ask(address, authorization=f"Bearer {secret}").status == 401
        assert web.ask(f"/?secret={secret}", cookie="").status == 401
        assert sign_in(web, secret)[0] == 401
    reply = web.ask(f"/hosts?secret={web.secret}&path=/", cookie="")
    assert (reply.status, reply.headers["location"]) == (303, "/hosts?path=%2F")
    assert reply.headers["referrer-policy"] == "no-referrer"
    cookie, *attributes = reply.headers["set-cookie"].split(";")
    assert cookie.startswith(f"taskq-{web.port}=")
    assert {"httponly", "samesite=strict"} <= {
        attribute.strip().lower() for attribute in attributes
    }
    assert web.secret not in reply.headers["set-cookie"] + reply.text
    assert web.ask("/hosts?path=/", cookie=cookie).status == 200
    assert web.ask("/hosts?path=/", cookie=cookie.replace(str(web.port), "1")).status == 401
    assert sign_in(web, web.secret)[0] == 303


def test_proxy_that_hides_itself_shows_nothing(web: WebProcess) -> None:
    """As nginx does by default: its Host is ours, and no header names it."""

    class Forward(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            connection = web.connection()
            connection.request("GET", self.path)
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Be silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Forward) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        for address in ("/", "/hosts", "/live?path=/"):
            connection = HTTPConnection("127.0.0.1", proxy.server_port)
            connection.request("GET", address)
            assert connection.getresponse().status == 401
            connection.close()
        proxy.shutdown()


def test_without_a_token_nothing_is_shown(guarded: WebProcess, paths: tuple[str, str]) -> None:
    """But the form that asks for one, and what it is made of."""
    for address in (
        "/",
        f"/campaign?path={paths[0]}",
        "/live?path=/",
        "/hosts",
        "/agents",
        "/owners",
    ):
        for cookie in ("", "taskq=", "taskq=x", "taskq=" + "y" * 43):
            reply = guarded.ask(address, cookie=cookie)
            assert reply.status == 401
            assert paths[0] not in reply.text
    assert guarded.ask("/static/style.css").status == 200
    assert guarded.page("/", 401).all("input")[0]["type"] == "password"


def test_token_shows_its_campaigns_only(
    guarded: WebProcess, shown: Client, paths: tuple[str, str]
) -> None:
    """By a cookie that scripts cannot read and other pages cannot send, or as a header."""
    mine, other = paths
    text = token(shown, mine)
    reply = guarded.ask("/sign-in", "POST", urlencode({"token": text}), **FORM)
    assert reply.status == 303
    attributes = {part.strip().lower() for part in reply.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= attributes
    cookie = {"cookie": reply.headers["set-cookie"].partition(";")[0]}
    assert text not in cookie["cookie"]
    for headers in (cookie, {"authorization": f"Bearer {text}"}):
        for address in ("/", f"/campaign?path={mine}", f"/hosts?path={mine}", "/agents", "/owners"):
            seen = guarded.ask(address, **headers)
            assert seen.status == 200
            assert mine in seen.text
            assert other not in seen.text
        for page in ("", "campaign", "hosts", "sites", "agents", "owners", "task", "live"):
            for path in ("/", other, mine + "x"):
                assert guarded.ask(f"/{page}?path={path}", **headers).status == 403
    guarded.ask("/sign-out", "POST", **cookie)
    assert guarded.ask("/", **cookie).status == 401


def test_page_names_nobody_elses_campaigns(
    web: WebProcess, guarded: WebProcess, shown: Client, paths: tuple[str, str]
) -> None:
    """Not even those that run on the same agents, which explain why one's own tasks wait."""
    mine, other = paths
    for path in paths:
        handler = Handler("command", argv=("true",))
        shown.campaign(path).change(CampaignSpec(path, handler=handler))
        shown.campaign(path).submit({"n": 1}, key="one")
    agent = ScriptedAgent(shown.database, "/", slots=1)
    try:
        agent.campaign = shown.campaign(other).campaign_id
        assert agent.exchange(want=1)["tasks"]
        shown.campaign(mine).submit({"n": 2}, key="two")
        for address in (f"/campaign?path={mine}", f"/task?path={mine}&key=two"):
            seen = guarded.ask(address, authorization=f"Bearer {token(shown, mine)}")
            assert (seen.status, other in seen.text) == (200, False)
        assert other in str(shown.campaign(mine).explain())
        assert other in web.ask(f"/campaign?path={mine}").text
    finally:
        agent.leave()
        agent.close()


def test_page_has_no_totals_of_the_whole_queue(
    guarded: WebProcess, shown: Client, paths: tuple[str, str]
) -> None:
    """Of the brake, a token for some campaigns shows that it is on; an owner has what is there."""
    mine, other = paths
    for path in paths:
        shown.owners.give(path, "totals-of-owner")
    before = shown.owners.list(mine, within=[mine])[0].campaigns
    assert shown.owners.list(mine)[0].campaigns > before
    with shown.database.transaction() as behind:
        behind.script("update taskq.brake set since = now(), silent = 777, open = 888")
    try:
        for path, whole in ((mine, False), ("/", True)):
            seen = guarded.ask(f"/agents?path={mine}", authorization=f"Bearer {token(shown, path)}")
            assert (seen.status, "silent since" in seen.text) == (200, True)
            assert ("777" in seen.text, "888" in seen.text) == (whole, whole)
    finally:
        with shown.database.transaction() as behind:
            behind.script("update taskq.brake set since = null, silent = 0, open = 0")
    assert other not in guarded.ask("/owners", authorization=f"Bearer {token(shown, mine)}").text


def test_bad_tokens_are_refused(guarded: WebProcess, shown: Client) -> None:
    """Unknown, a site's, revoked, empty, too long, or no text."""
    name = secrets.token_hex(4)
    revoked, _ = shown.tokens.create("manager", name, ["/"])
    shown.tokens.revoke(name)
    for text in ("tqm_x", token(shown, "/", "site"), revoked, "", "\x00", "\ud800", "x" * 100):
        body = urlencode({"token": text}, errors="surrogatepass")
        assert guarded.ask("/sign-in", "POST", body, **FORM).status == 401
    assert guarded.ask("/sign-in", "POST", "token=" + "x" * 5_000, **FORM).status == 400
    assert guarded.ask("/sign-in", "POST", "", **FORM).status == 401


def test_forms_of_other_pages_are_refused(guarded: WebProcess, shown: Client) -> None:
    """They could sign somebody in with a token of theirs, or out."""
    text = token(shown, "/")
    _, cookie = sign_in(guarded, text)
    for headers in ({"origin": "https://evil.example"}, {"sec_fetch_site": "cross-site"}):
        assert sign_in(guarded, text, **headers) == (403, "")
        assert guarded.ask("/sign-out", "POST", cookie=cookie, **headers).status == 403
    assert guarded.ask("/", cookie=cookie).status == 200
    assert sign_in(guarded, text, origin=guarded.url.rstrip("/"))[0] == 303


def test_forms_of_our_own_pages_are_taken_behind_proxies(
    guarded: WebProcess, shown: Client
) -> None:
    """Some pass another name of the host on, and privacy settings of browsers hide the origin."""
    text = token(shown, "/")
    for headers in (
        {"sec_fetch_site": "same-origin", "origin": "https://queue.example"},
        {"sec_fetch_site": "same-origin", "origin": "null"},
        {"origin": f"https://127.0.0.1:{guarded.port}"},
    ):
        assert sign_in(guarded, text, **headers)[0] == 303
    status, page = sign_in(guarded, text, origin="https://queue.example")
    assert (status, page) == (403, "")


def test_revoked_token_shows_nothing_any_more(queue: Client) -> None:
    """Also to who has signed in with it."""
    text, known = queue.tokens.create("manager", "one", ["/"])
    access = Access(queue.database, secret=None, secure=False, fresh_s=0.0)
    cookie = access.sign_in(text)
    assert access.viewer({}, cookie).paths == ("/",)
    queue.tokens.revoke(known.name)
    for _ in range(2):
        with pytest.raises(Unauthorized):
            access.viewer({}, cookie)


def test_token_that_signs_in_without_end_signs_out_nobody_else(
    queue: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest cookies of the token with the most go; a token that signs out leaves room."""
    monkeypatch.setattr(access_of_pages, "MOST_SIGNED_IN", 50)
    access = Access(queue.database, secret=None, secure=False)
    flooding, *others = (queue.tokens.create("manager", name, ["/"])[0] for name in "abc")
    kept = [access.sign_in(text) for text in (others[0], others[0], others[1])]
    flood = [access.sign_in(flooding) for _ in range(120)]
    for cookie in (*kept, *flood[-47:]):
        assert access.viewer({}, cookie).paths == ("/",)
    for cookie in flood[:-47]:
        with pytest.raises(Unauthorized):
            access.viewer({}, cookie)
    access.sign_out(flood[-1])
    access.sign_in(others[1])
    assert access.viewer({}, flood[-47]).paths == ("/",)


@pytest.mark.thorough
def test_ten_thousand_sign_ins_sign_out_nobody_else(guarded: WebProcess, shown: Client) -> None:
    """Over HTTP, with the limit as it is."""
    status, cookie = sign_in(guarded, token(shown, "/"))
    assert status == 303
    body = urlencode({"token": token(shown, "/")})
    headers = {"content-type": "application/x-www-form-urlencoded"}
    connection = guarded.connection()
    for _ in range(access_of_pages.MOST_SIGNED_IN + 50):
        connection.request("POST", "/sign-in", body, headers)
        reply = connection.getresponse()
        assert (reply.status, reply.read()) == (303, b"")
    connection.close()
    assert guarded.ask("/", cookie=cookie).status == 200


def test_addresses_beyond_this_machine_demand_tokens_and_tls(taskq: CommandLine) -> None:
    """The refusal says what to do."""
    for host in ("0.0.0.0:0", "[::]:0", "203.0.113.1:8078", "somewhere:8078"):
        code, text = taskq.refused("web", "--listen", host)
        assert (code, "--require-token" in text) == (2, True)
        code, text = taskq.refused("web", "--listen", host, "--require-token")
        assert (code, "--tls-cert" in text) == (2, True)


@pytest.mark.parametrize("text", ["127.0.0.1", ":8078", "127.0.0.1:", "127.0.0.1:x", "a:70000"])
def test_bad_address_is_refused(taskq: CommandLine, text: str) -> None:
    """With an example of a good one."""
    code, error = taskq.refused("web", "--listen", text)
    assert (code, "such as 127.0.0.1:" in error) == (2, True)


def test_address_in_use_and_bad_certificates_are_refused_in_one_line(
    web: WebProcess, taskq: CommandLine, tmp_path: Path
) -> None:
    """In one line."""
    assert "cannot listen" in taskq.refused("web", "--listen", f"127.0.0.1:{web.port}")[1]
    empty = tmp_path / "empty.pem"
    empty.touch()
    for file, why in (
        (empty, "not a certificate and its key in PEM"),
        (tmp_path / "none.pem", "No such file"),
    ):
        words = ("--tls-cert", file, "--tls-key", file)
        assert why in taskq.refused("web", "--listen", "127.0.0.1:0", *words)[1]
    assert "belong together" in taskq.refused("web", "--tls-cert", empty)[1]


@pytest.mark.thorough
def test_roles_that_the_pages_need(staff: Staff, tmp_path: Path) -> None:
    """A reader's without tokens, with them that of the pages."""
    staff.owner.create_campaign("/a")
    text = token(staff.owner, "/a")
    process = WebProcess(staff.login("reader").dsn, tmp_path)
    try:
        for address in ("/", "/campaign?path=/a", "/hosts", "/sites", "/agents"):
            assert process.ask(address).status == 200, address
    finally:
        process.stop()
    process = WebProcess(staff.login("web").dsn, tmp_path, "--require-token")
    try:
        for address in ("/", "/campaign?path=/a", "/hosts", "/sites", "/agents"):
            assert process.ask(address, authorization=f"Bearer {text}").status == 200, address
    finally:
        process.stop()


@pytest.mark.thorough
def test_servers_are_shown_to_those_who_may_see_everything(
    guarded: WebProcess, shown: Client, paths: tuple[str, str]
) -> None:
    """Gateways and database are the whole queue's."""
    shown.database.rows(
        "note_gateway",
        holder=str(uuid.uuid4()),
        name="n1<b>:8443",
        release="1.2",
        sessions=1_234,
        per_s=1_500.0,
        front=False,
        certificate_ends_s=None,
    )
    words = ("Gateways and database", "n1&lt;b&gt;:8443", "1,500/s", "PostgreSQL")

    def seen(path: str) -> int:
        _, cookie = sign_in(guarded, token(shown, path))
        text = guarded.ask("/", cookie=cookie).text
        return sum(word in text for word in words)

    # What was read before is kept for some seconds.
    wait_until(lambda: seen("/") == len(words), timeout_s=60)
    assert seen(paths[0]) == 0
