"""Messages as mail, to a real server: encrypted, with a password or none."""

from __future__ import annotations

import asyncio
import email
import email.policy
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

from taskq import Campaign
from taskq.db.connections import Database
from taskq.upkeep.channels import Channels, SmtpServer
from taskq.upkeep.notifications import Notifications
from taskq.upkeep.sender import Sender
from tests.helpers.certificates import Certificates
from tests.integration.notify.support import send

SENDER = "taskq@example.org"


class Postbox:
    """What a mail server was given."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.logins: list[tuple[bytes, bytes]] = []

    async def handle_DATA(  # noqa: N802  # aiosmtpd's
        self, _: object, __: object, envelope: Envelope
    ) -> str:
        """Take a letter."""
        self.envelopes.append(envelope)
        return "250 taken"

    def authenticate(self, _: Any, __: Any, ___: Any, ____: Any, data: Any) -> AuthResult:
        """Take a login with the right password."""
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=data.password == b"right", handled=False)

    def letter(self) -> EmailMessage:
        """Return the only letter."""
        (envelope,) = self.envelopes
        letter = email.message_from_bytes(envelope.content, policy=email.policy.default)  # type: ignore[arg-type]
        assert isinstance(letter, EmailMessage)
        return letter


@pytest.fixture
def postbox() -> Postbox:
    """Give an empty one."""
    return Postbox()


@pytest.fixture
def serve(postbox: Postbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give a function that starts a mail server, and returns its address."""
    certificates = Certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers: list[asyncio.Server] = []

    def started(*, tls: bool, auth: bool = False) -> SmtpServer:
        def protocol() -> SMTP:
            return SMTP(
                postbox,
                tls_context=certificates.server() if tls else None,
                require_starttls=tls,
                auth_required=auth and tls,
                auth_require_tls=tls,
                authenticator=postbox.authenticate if auth else None,
                hostname="localhost",
                loop=loop,
            )

        listening = loop.create_server(protocol, "127.0.0.1", 0)
        servers.append(asyncio.run_coroutine_threadsafe(listening, loop).result())
        port = servers[-1].sockets[0].getsockname()[1]
        return SmtpServer("127.0.0.1", port, encrypted=False, user="me" if auth else None)

    yield started

    async def ended() -> None:
        for server in servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    asyncio.run_coroutine_threadsafe(ended(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def tell(database: Database, campaign: Campaign, rules: Notifications) -> Iterator[Any]:
    """Give a function that has a test sent by mail, and returns the trouble that it had."""
    rules.add("m", campaign.path, ["paused"], "mail:ann@example.org")
    senders: list[Sender] = []

    def received(server: SmtpServer) -> str | None:
        senders.append(Sender(database, Channels(smtp=server, mail_from=SENDER)))
        event, failed = rules.test("m"), rules.rule("m").attempts
        send(
            senders[-1],
            lambda: rules.status(event) == "sent" or rules.rule("m").attempts > failed,
        )
        return rules.rule("m").trouble

    yield received
    for sender in senders:
        sender.close()


def test_mail_is_sent_with_what_mail_programs_want(
    serve: Any, tell: Any, postbox: Postbox, rules: Notifications
) -> None:
    """A date, an id by which a repeated one is known, and no answers by automata."""
    assert tell(serve(tls=False)) is None
    (envelope,), letter = postbox.envelopes, postbox.letter()
    assert (envelope.mail_from, envelope.rcpt_tos) == (SENDER, ["ann@example.org"])
    assert letter["Subject"] == "taskq: a test of the rule m"
    assert letter["Auto-Submitted"] == "auto-generated"
    assert letter["Date"]
    assert letter["Message-ID"].endswith("@example.org>")
    body = letter.get_content()
    assert "Nothing has happened." in body
    (event,) = rules.events("m")
    assert str(event.event_id) in body


@pytest.mark.thorough
def test_password_goes_to_an_encrypted_server_only(
    serve: Any, tell: Any, postbox: Postbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from the environment, and is in no table and no message."""
    monkeypatch.setenv("TASKQ_SMTP_PASSWORD", "right")
    assert (
        tell(serve(tls=False, auth=True)) == "the mail server offers no TLS, so it gets no password"
    )
    assert postbox.logins == []
    assert tell(serve(tls=True, auth=True)) is None
    assert postbox.logins == [(b"me", b"right")]
    assert "right" not in str(postbox.letter()).partition("Nothing")[0]


@pytest.mark.thorough
def test_refusal_of_a_mail_server_is_reported_in_its_words(
    serve: Any, tell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the password."""
    monkeypatch.setenv("TASKQ_SMTP_PASSWORD", "wr0ng")
    trouble = tell(serve(tls=True, auth=True))
    assert "535" in trouble
    assert "wr0ng" not in trouble


@pytest.mark.thorough
def test_server_that_is_not_who_it_says_gets_nothing(
    serve: Any, tell: Any, postbox: Postbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its certificate is checked."""
    server = serve(tls=True)
    monkeypatch.delenv("SSL_CERT_FILE")
    assert "CERTIFICATE_VERIFY_FAILED" in tell(server)
    assert postbox.envelopes == []
