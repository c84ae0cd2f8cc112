"""Traces of tasks at a real receiver: complete, the same whenever they are sent, never lost."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskq import Client, Cursor
from taskq.model.errors import Unavailable
from taskq.results import traces as exporting
from taskq.results.otlp import Receiver
from taskq.results.traces import TraceExport
from tests.fixtures.queues import Hire
from tests.helpers.campaigns import servable
from tests.helpers.command_line import CommandLine
from tests.helpers.otlp_receiver import OtlpReceiver, receiving
from tests.helpers.scripted_agent import report_of
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import wait_until

pytestmark = pytest.mark.both_transports(
    near=["test_receiver_that_does_not_take_traces_is_named", "test_slow_receiver_is_left"]
)
PHASES = {"wait_s": 1e-6, "run_s": 2e-6, "cpu_s": 1.5, "peak_bytes": 10**6}


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[OtlpReceiver]:
    """Give a receiver in a process of its own."""
    with receiving(tmp_path / "spans.jsonl") as found:
        yield found


def work(queue: Client, hire: Hire) -> None:
    """Make /a with tasks that are done, done at the second attempt, failed, waiting; and /a/b."""
    campaign = servable(queue, "/a", 3)
    agent = hire("/a", host="n17", site="alpha")
    first, again, failed = agent.claim(3)
    bad = {"error_class": "Boom", "error": "it broke", "exit_code": 3}
    agent.exchange(
        [
            report_of(first, "done", phases=PHASES),
            report_of(again, "failed", retry=False, **bad),
            report_of(failed, "failed", retry=False, **bad),
        ]
    )
    agent.close()
    campaign.retry(keys=[again.key])
    other = hire("/a", host="n18")
    other.exchange([report_of(task, "done") for task in other.claim(1)])
    campaign.submit({"n": 9})
    below = servable(queue, "/a/b", 1)
    other.close()
    other = hire(below.path)
    other.exchange([report_of(other.claim(1)[0], "done")])


def test_trace_has_the_attempts_of_a_task(
    queue: Client, hire: Hire, taskq: CommandLine, receiver: OtlpReceiver
) -> None:
    """Of each that is done or has failed: phases within attempts, waits between them."""
    work(queue, hire)
    exported = taskq.json("traces", "export", "/a", "--to", receiver.url)
    spans = receiver.spans()
    assert (exported["traces"], exported["spans"]) == (4, len(spans))
    roots = {span["attributes"]["taskq.task.id"]: span for span in spans if not span["parent"]}
    assert [root["attributes"]["taskq.campaign"] for root in roots.values()] == ["/a"] * 2 + [
        "/a/b",
        "/a",
    ]
    assert sorted(root["attributes"]["taskq.attempts"] for root in roots.values()) == [1, 1, 1, 2]
    assert [root["failed"] for root in roots.values()] == [False] * 3 + [True]
    by_id = {span["id"]: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        above = by_id.get(span["parent"], span)
        assert span["trace"] == above["trace"]
        assert above["begin"] <= span["begin"] <= span["end"] <= above["end"]
    first = next(span["trace"] for span in spans)
    assert [span["name"] for span in spans if span["trace"] == first] == [
        *("task of /a", "attempt", "wait", "run", "report")
    ]
    attempts = [span for span in spans if span["name"] == "attempt"]
    assert [attempt["error"] for attempt in attempts if attempt["failed"]] == ["Boom: it broke"] * 2
    about = attempts[0]["attributes"]
    assert (about["host.name"], about["taskq.site"], about["taskq.cpu_s"]) == ("n17", "alpha", 1.5)
    assert sum(span["name"] == "wait to be claimed" for span in spans) == 1


@pytest.mark.thorough
def test_repetition_sends_the_same_ids(
    queue: Client, hire: Hire, taskq: CommandLine, receiver: OtlpReceiver
) -> None:
    """Of the same tasks; a campaign made anew under the same path has others."""
    for _ in range(2):
        campaign = servable(queue, "/a", 1)
        agent = hire("/a")
        agent.exchange([report_of(agent.claim(1)[0], "done")])
        agent.close()
        for _ in range(2):
            taskq.out("traces", "export", "/a", "--to", receiver.url)
        campaign.cancel()
        campaign.remove()
    ids = [(span["trace"], span["id"]) for span in receiver.spans()]
    assert ids[:2] == ids[2:4]
    assert ids[4:6] == ids[6:]
    assert not set(ids[:2]) & set(ids[4:])


@pytest.mark.thorough
def test_cursor_gives_each_task_once(
    queue: Client, hire: Hire, taskq: CommandLine, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    """One that failed, and is done after a retry, is sent again."""
    words = ("traces", "export", "/a", "--to", receiver.url, "--cursor", tmp_path / "cursor")
    campaign = servable(queue, "/a", 3)
    agent = hire("/a")
    done, failed = agent.claim(2)
    agent.exchange([report_of(done, "done"), report_of(failed, "failed", retry=False)])
    sent = [taskq.json(*words)["traces"] for _ in range(2)]
    campaign.retry()
    agent.exchange([report_of(task, "done") for task in agent.claim(2)])
    sent += [taskq.json(*words)["traces"] for _ in range(2)]
    assert sent == [2, 0, 2, 0]
    roots = [span["trace"] for span in receiver.spans() if not span["parent"]]
    assert len(roots) == 4
    assert len(set(roots)) == 3


@pytest.mark.thorough
def test_cursors_of_traces_and_of_results_are_apart(
    queue: Client, hire: Hire, taskq: CommandLine, receiver: OtlpReceiver, tmp_path: Path
) -> None:
    """Results that were sent as traces are still to be exported."""
    work(queue, hire)
    traces = ("traces", "export", "/a", "--to", receiver.url, "--cursor")
    taskq.out(*traces, tmp_path / "traces")
    code, said = taskq.refused("export", "/a", "--cursor", tmp_path / "traces")
    assert (code, said) == (3, "this cursor is of traces of /a, not of /a; name another")
    assert taskq.out("export", "/a", "--cursor", tmp_path / "results").count("\n") == 3
    code, said = taskq.refused(*traces, tmp_path / "results")
    assert (code, said) == (3, "this cursor is of /a, not of traces of /a; name another")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "code", "message"),
    rest_thorough(
        [
            ("/busy", 69, "answered 503: 'come \\x1b[31m again'"),
            ("/refuse", 2, "answered 401: 'no token'"),
            ("/cut", 69, "cannot be reached"),
            ("/echo", 2, "answered 400: 'authorization: ...'"),
            (":1", 69, "cannot be reached"),
        ],
        quick=2,
    ),
)
def test_receiver_that_does_not_take_traces_is_named(  # fixtures
    queue: Client,
    hire: Hire,
    taskq: CommandLine,
    receiver: OtlpReceiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    code: int,
    message: str,
) -> None:
    """In one line, without what it would do to a terminal; nothing counts as sent."""
    work(queue, hire)
    url = "http://127.0.0.1:1" if where == ":1" else receiver.url + where
    words = ("traces", "export", "/a", "--cursor", tmp_path / "cursor", "--to")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=s3cret")
    exit_code, said = taskq.refused(*words, url)
    assert (exit_code, receiver.spans()) == (code, [])
    assert message in said
    assert url in said
    assert taskq.json(*words, receiver.url)["traces"] == 4


@pytest.mark.parametrize("how", ["slow", "endless"])
def test_slow_receiver_is_left(queue: Client, hire: Hire, receiver: OtlpReceiver, how: str) -> None:
    """After the time that it has, also if it goes on answering; a next call sends all."""
    work(queue, hire)
    cursor = Cursor()
    saved: list[int] = []
    slow = Receiver(f"{receiver.url}/{how}", timeout_s=0.1)
    sending = TraceExport(queue.queries, "/a", cursor, slow, save=lambda: saved.append(len(cursor)))
    with pytest.raises(Unavailable, match=r"has not answered for 0\.1 s"):
        sending.once()
    assert set(saved) <= {0}


def test_batches_are_bounded_and_nothing_is_lost_between_them(
    queue: Client,
    hire: Hire,
    receiver: OtlpReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A receiver that is away for the first request gets all, each once, with the next call."""
    monkeypatch.setattr(exporting, "MOST_SPANS", 10)
    servable(queue, "/a", 40)
    agent = hire("/a")
    tasks = agent.claim(40)
    agent.exchange([report_of(task, "failed", retry=False) for task in tasks[:20]])
    agent.exchange([report_of(task, "done") for task in tasks[20:]])
    cursor = Cursor()
    sending = TraceExport(
        queue.queries, "/a", cursor, Receiver(f"{receiver.url}/once-busy", "Authorization=x%20y")
    )
    with pytest.raises(Unavailable, match="503"):
        sending.once()
    sending.once()
    spans = receiver.spans()
    assert sending.spans == len(spans) == len({span["id"] for span in spans}) == 80
    sizes = [
        sum(span["request"] == n for span in spans) for n in {span["request"] for span in spans}
    ]
    assert max(sizes) <= 10
    assert {span["authorization"] for span in spans} == {"x y"}


@pytest.mark.thorough
def test_follow_waits_for_a_receiver_and_ends_with_the_last_task(
    queue: Client, hire: Hire, taskq: CommandLine, tmp_path: Path
) -> None:
    """What ends meanwhile is sent when it is there."""
    servable(queue, "/a", 2)
    agent = hire("/a")
    done, other = agent.claim(2)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    agent.exchange([report_of(done, "done")])
    words = ("traces", "export", "/a", "--to", f"http://127.0.0.1:{port}", "--follow")
    with taskq.process(*words) as process:
        assert process.stderr is not None
        assert "Connection refused; trying again" in process.stderr.readline()
        with receiving(tmp_path / "spans", port) as receiver:
            wait_until(lambda: len(receiver.spans()) == 2)
            agent.exchange([report_of(other, "failed", retry=False)])
            assert process.wait(60) == 0
            assert len(receiver.spans()) == 4


def test_complaint_of_a_receiver_is_a_warning(
    queue: Client, hire: Hire, taskq: CommandLine, receiver: OtlpReceiver
) -> None:
    """It has taken the request, and must not get it again."""
    work(queue, hire)
    done = taskq("traces", "export", "/a", "--to", f"{receiver.url}/partial")
    assert done.exit_code == 0
    assert "Warning: 7 spans refused: 'too old'" in done.stderr


@pytest.mark.parametrize(
    ("status", "words"),
    [(413, "client_max_body_size"), (200, "Sign in to the guest network")],
)
def test_page_of_a_proxy_neither_takes_traces_nor_leaves_any_out(
    queue: Client,
    hire: Hire,
    taskq: CommandLine,
    receiver: OtlpReceiver,
    tmp_path: Path,
    status: int,
    words: str,
) -> None:
    """The same command sends all of them when the proxy lets them through."""
    work(queue, hire)
    export = ["traces", "export", "/a", "--cursor", str(tmp_path / "cursor")]
    export += ["--to", f"{receiver.url}/page-{status}"]
    refused = taskq(*export)
    assert refused.exit_code == 69
    assert f"{status} from something before" in refused.stderr
    assert words in refused.stderr
    assert receiver.spans() == []
    Path(f"{receiver.file}.open").touch()
    assert taskq(*export).exit_code == 0
    assert len([span for span in receiver.spans() if not span["parent"]]) == 4


@pytest.mark.thorough
def test_traces_too_large_for_a_receiver_are_sent_in_parts(
    queue: Client, hire: Hire, taskq: CommandLine, receiver: OtlpReceiver
) -> None:
    """A trace that is too large alone is reported, and keeps none of the others back."""
    work(queue, hire)
    large = servable(queue, "/a/large", 1)
    for number in range(9):
        agent = hire(large.path, host=f"large{number}")
        agent.fail(agent.claim()[0], retry=False)
        large.retry()
    agent.fail(agent.claim()[0], retry=False)
    done = taskq("traces", "export", "/a", "--to", f"{receiver.url}/small")
    assert done.exit_code == 0
    assert "Warning: a trace of 20 spans is too large for it, and left out" in done.stderr
    roots = [span for span in receiver.spans() if not span["parent"]]
    assert [root["name"] for root in roots].count("task of /a") == 3
    assert "task of /a/large" not in {root["name"] for root in roots}
