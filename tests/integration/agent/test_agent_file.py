"""The agent as one file, as a process of its own, with real gateways and payloads."""

from __future__ import annotations

import io
import resource
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from taskq.model.version import VERSION
from taskq.pilots.agent_file import build
from taskq_agent.protocol import DONE, PROTOCOL, RELEASED, STOP, Orders
from tests.helpers.certificates import Certificates
from tests.helpers.memory_gateway import HttpGateway, Reply, error, gateway_of
from tests.helpers.memory_queue import MemoryQueue
from tests.helpers.pythons import pythons
from tests.helpers.slot_harness import processes_with
from tests.helpers.threaded_agent import queue_of
from tests.helpers.waiting import BUSY_S, wait_until
from tests.helpers.worker_node import AgentResult, WorkerNode

pytestmark = pytest.mark.thorough

PAYLOAD = """
from taskq_agent import FailForGood

def square(payload, shared):
    if payload["n"] == 3:
        raise FailForGood("three is odd")
    return {"square": payload["n"] ** 2}
"""


@pytest.fixture
def node(tmp_path: Path) -> WorkerNode:
    return WorkerNode(tmp_path)


@pytest.fixture
def queue() -> MemoryQueue:
    """Give a queue of ten tasks that a Python function works on."""
    return with_handler(queue_of(10), kind="python", target="squares:square")


@pytest.fixture
def gateway(queue: MemoryQueue) -> Iterator[HttpGateway]:
    with gateway_of(queue) as gateway:
        yield gateway


def with_handler(queue: MemoryQueue, **handler: object) -> MemoryQueue:
    queue.campaign = replace(queue.campaign, handler=handler)
    return queue


def sleeping(queue: MemoryQueue, **changes: object) -> MemoryQueue:
    """Let the queue's tasks run until they are stopped."""
    queue.campaign = replace(
        queue.campaign,
        handler={"kind": "command", "argv": ["sleep", "600"]},
        **changes,  # type: ignore[arg-type]  # members of a campaign, by name
    )
    return queue


# The file


def test_same_sources_make_the_same_file() -> None:
    assert build() == build()


def test_file_is_small_and_holds_the_agent_alone() -> None:
    """It goes to thousands of nodes, and needs nothing that they do not have."""
    assert len(build()) < 300_000
    names = zipfile.ZipFile(io.BytesIO(build())).namelist()
    assert names == sorted(names)
    assert {name.partition("/")[0] for name in names} == {
        "__main__.py",
        "taskq_agent",
        *(f"taskq_agent_{name}.py" for name in ("bytecode", "import_path")),
        f"taskq_campaigns-{VERSION}.dist-info",
    }


def test_file_is_a_program(tmp_path: Path) -> None:
    target = tmp_path / "dist" / "agent.pyz"
    subprocess.run([sys.executable, "-m", "taskq.pilots.agent_file", str(target)], check=True)
    for word in ("version", "--version"):
        said = subprocess.run([target, word], capture_output=True, text=True, check=True).stdout
        assert said == f"taskq-agent {VERSION}, protocol {PROTOCOL}\n"


@pytest.mark.parametrize("release", pythons())
def test_start_after_the_first_compiles_nothing(release: str, node: WorkerNode) -> None:
    """The copy next to the file has bytecode of this Python; it stays when the file changes."""
    (copy,) = copies_after_a_start(node, python=pythons()[release])
    asked = f"import sys; sys.path.insert(0, {str(copy)!r}); import taskq_agent.core.core as core"
    shown = [pythons()[release], "-I", "-c", f"{asked}; print(core.__file__)"]
    said = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
    assert said == f"{copy}/taskq_agent/core/core.pyc\n"
    before = copy.stat()
    assert copies_after_a_start(node, python=pythons()[release]) == [copy]
    with zipfile.ZipFile(node.agent, "a") as archive:
        archive.comment = b"of the next release"
    assert len(copies_after_a_start(node, python=pythons()[release])) == 2
    assert copy.stat() == before


def test_copy_that_others_could_have_written_is_not_run(node: WorkerNode) -> None:
    """The folder next to the file must be of this user or the file's owner alone."""
    (copy,) = copies_after_a_start(node)
    with zipfile.ZipFile(copy, "w") as archive:
        archive.writestr("taskq_agent/__init__.py", "raise SystemExit('planted')")
    copy.parent.chmod(0o777)
    assert copies_after_a_start(node) == [copy]


def test_agent_starts_where_no_copy_can_be_written(node: WorkerNode) -> None:
    (node.folder / "__pycache__").write_text("no folder")
    assert copies_after_a_start(node) == []
    (node.folder / "__pycache__").unlink()
    assert copies_after_a_start(node, PYTHONDONTWRITEBYTECODE="1") == []
    assert not (node.folder / "__pycache__").exists()


def copies_after_a_start(node: WorkerNode, **more: str) -> list[Path]:
    """Start the agent, which must say its version; return the copies of its file."""
    with node.started("version", **more) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, f"taskq-agent {VERSION}, protocol {PROTOCOL}\n"), err
    return sorted((node.folder / "__pycache__").glob("*"))


@pytest.mark.parametrize("release", pythons())
def test_agent_works_under_every_python(
    release: str, node: WorkerNode, gateway: HttpGateway, queue: MemoryQueue
) -> None:
    """Python callables run in children that find the agent in its file, and so does the reaper."""
    (node.folder / "squares.py").write_text(PAYLOAD)
    ran = node.run(gateway.url, python=pythons()[release], until_empty=True, path=".", slots=2)
    assert (ran.code, ran.summary["done"], ran.summary["failed"]) == (0, 9, 1), ran.err
    assert queue.counts() == {DONE: 9, "failed": 1}
    assert queue.tasks[10].accepted[0].result == {"square": 81}
    assert queue.tasks[4].accepted[0].error == "three is odd"
    assert "Traceback" not in ran.err
    assert queue.hellos[0].release == VERSION
    assert queue.hellos[0].campaign == "/"
    assert queue.opened == set()


def test_killed_agent_leaves_nothing_behind(
    node: WorkerNode, gateway: HttpGateway, queue: MemoryQueue
) -> None:
    """The reaper works from within the file too."""
    sleeping(queue)
    with node.started(
        "run", "--gateway", gateway.url, "--token-file", node.token, NODE=str(node.folder)
    ) as process:
        wait_until(lambda: len(processes_with("NODE", str(node.folder))) >= 2)
        process.kill()
        process.wait()
        wait_until(lambda: not processes_with("NODE", str(node.folder), reapers=True))


# Gateways that come and go


def test_campaign_is_finished_while_a_gateway_is_killed(
    node: WorkerNode, tmp_path: Path, queue: MemoryQueue
) -> None:
    """Over TLS, with two gateways: the agent notices little, the campaign nothing."""
    (node.folder / "squares.py").write_text(
        PAYLOAD.replace("return", "import time; time.sleep(.2)\n    return")
    )
    certificates = Certificates(tmp_path)
    with (
        gateway_of(queue, certificates.server()) as value,
        gateway_of(queue, certificates.server()) as two,
    ):
        value.tokens = two.tokens  # both serve one queue
        with node.at_work(value.url, two.url, ca=certificates.ca, until_empty=True, path=".") as it:
            wait_until(lambda: queue.counts()[DONE] >= 2)
            doomed = max(value, two, key=lambda gateway: len(gateway.seen))
            doomed.close()
            ran = AgentResult(it)
    assert (ran.code, ran.summary["done"]) == (0, 9), ran.err
    assert queue.counts() == {DONE: 9, "failed": 1}
    assert f":{doomed.port}" in ran.err


def test_idle_agent_obeys_signals_at_once(node: WorkerNode) -> None:
    """It does not sit out the time for which its claim may wait."""
    with gateway_of(queue_of(0)) as gateway, node.at_work(gateway.url) as process:
        wait_until(lambda: gateway.waits)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        ran = AgentResult(process)
    assert (ran.code, ran.summary["reason"]) == (0, "it got a signal to stop"), ran.err
    assert time.monotonic() - began < BUSY_S
    assert gateway.queue.opened == set()


def test_order_to_drain_ends_an_idle_agent(node: WorkerNode) -> None:
    """It comes with a beat while a claim is waiting."""
    with gateway_of(queue_of(0, heartbeat_s=0.2)) as gateway, node.at_work(gateway.url) as process:
        wait_until(lambda: gateway.waits)
        gateway.orders = Orders(drain=True)
        ran = AgentResult(process)
    assert (ran.code, ran.summary["reason"]) == (0, "it got the order to drain"), ran.err


def test_busy_gateway_is_left_alone_until_its_time(
    node: WorkerNode, gateway: HttpGateway, queue: MemoryQueue
) -> None:
    """Retry-After is kept, and then the agent works as if nothing had been."""
    with_handler(queue, kind="command", argv=["true"])
    came: list[float] = []

    def busy(path: str) -> Reply | None:
        if path != "/v1/sessions":
            return None
        came.append(time.monotonic())
        return error(503, "busy", Retry_After="1.5") if len(came) < 3 else None

    gateway.substitute = busy
    ran = node.run(gateway.url, until_empty=True)
    assert (ran.code, ran.summary["done"]) == (0, 10), ran.err
    assert all(1.5 <= later - earlier < 4 for earlier, later in pairwise(came))


def test_unheard_agent_stops_what_is_not_to_run_so(
    node: WorkerNode, queue: MemoryQueue, gateway: HttpGateway
) -> None:
    """`on_disconnect = stop`: the payload is gone when the session must have expired."""
    sleeping(queue, on_disconnect=STOP)
    queue.heartbeat_s = 0.3
    with node.started(
        "run", "--gateway", gateway.url, "--token-file", node.token, NODE=str(node.folder)
    ) as process:

        def sleepers() -> set[int]:
            # Other runs of the tests on this machine have payloads of this campaign as well.
            ours = processes_with("NODE", str(node.folder))
            return {*ours} & {*processes_with("TASKQ_CAMPAIGN", "/test")}

        wait_until(sleepers)
        gateway.substitute = lambda _: Reply(hang_up=True)
        wait_until(lambda: not sleepers(), timeout_s=20)
        assert process.poll() is None, "the agent itself goes on"
        gateway.substitute = lambda _: None
        wait_until(lambda: RELEASED in queue.outcomes(1), timeout_s=40)


# A node that is not fit, an agent that gets nonsense


def test_unfit_node_claims_nothing(
    node: WorkerNode, gateway: HttpGateway, queue: MemoryQueue
) -> None:
    ran = node.run(gateway.url, self_test="sh -c 'echo no GPU >&2; exit 3'")
    assert ran.code == 69
    assert ran.summary["reason"] == "this node is unfit: sh exited with 3: no GPU"
    assert ([ran.summary["reason"]], []) == ([it.unfit for it in queue.hellos], queue.requests)


def test_fit_node_works(node: WorkerNode, gateway: HttpGateway, queue: MemoryQueue) -> None:
    with_handler(queue, kind="command", argv=["true"])
    ran = node.run(gateway.url, self_test="true", until_empty=True)
    assert (ran.code, ran.summary["done"]) == (0, 10), ran.err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"self_test": "no-such-program"}, "no-such-program cannot be started"),
        ({"scratch": "/proc/none"}, "no scratch folder can be used"),
    ],
)
def test_agent_names_what_its_node_lacks(
    node: WorkerNode, gateway: HttpGateway, options: dict[str, str], text: str
) -> None:
    ran = node.run(gateway.url, **options)
    assert ran.code == 69
    assert text in ran.summary["reason"]
    assert text in ran.err


def test_node_that_trusts_no_gateway_is_unfit(node: WorkerNode, tmp_path: Path) -> None:
    """The error comes at once; no agent waits for ever."""
    certificates = Certificates(tmp_path)
    with gateway_of(queue_of(1), certificates.server()) as gateway:
        ran = node.run(gateway.url)
    assert ran.code == 69
    assert "certificate" in ran.summary["reason"]


def test_agent_warns_of_a_clock_that_is_far_off(node: WorkerNode, gateway: HttpGateway) -> None:
    date = (("Date", "Mon, 01 Jan 2001 00:00:00 GMT"),)
    gateway.substitute = lambda path: Reply(200, b"{}", date) if path == "/healthz" else None
    with_handler(gateway.queue, kind="command", argv=["true"])
    ran = node.run(gateway.url, until_empty=True)
    assert ran.code == 0
    assert "the clock of this node is off by" in ran.err


def test_refused_agent_says_so(node: WorkerNode, gateway: HttpGateway) -> None:
    node.token.write_text("tqe_revoked")
    ran = node.run(gateway.url)
    assert (ran.code, ran.summary["exit_code"]) == (77, 77)
    assert "401 unauthorized" in ran.summary["reason"]


def test_token_is_neither_shown_nor_given_to_payloads(
    node: WorkerNode, gateway: HttpGateway, queue: MemoryQueue
) -> None:
    with_handler(queue, kind="command", argv=["env"])
    with node.started(
        "run", "--gateway", gateway.url, "--until-empty", "-v", TASKQ_TOKEN=node.token.read_text()
    ) as process:
        ran = AgentResult(process)
    assert (ran.code, ran.summary["done"]) == (0, 10), ran.err
    said = ran.err + ran.out + str([entry.accepted for entry in queue.tasks.values()])
    assert "tqe_" not in said
    assert "tqs_" not in said


def test_agent_warns_of_a_token_open_to_others(node: WorkerNode, gateway: HttpGateway) -> None:
    node.token.chmod(0o644)
    with_handler(gateway.queue, kind="command", argv=["true"])
    ran = node.run(gateway.url, until_empty=True)
    assert ran.code == 0
    assert "can be read by other users" in ran.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--gateway", "http://gateway.example"], "in the clear"),
        (["--gateway", "gateway.example"], "https://HOST"),
        (["--gateway", "http://localhost:1", "--slots", "0"], "slots is 0"),
        (["--gateway", "http://localhost:1", "--campaign", "test"], "begins with /"),
        (["--gateway", "http://localhost:1", "--stop", "1"], "--payload-grace"),
        (["--gateway", "http://localhost:1", "--ca", "none"], "--ca none: No such file"),
        (["--gateway", "http://localhost:1", "--ca", __file__], f"--ca {__file__}: "),
        (
            ["--gateway", "http://localhost:1", "--tls-cert", "none"],
            "--tls-cert none: No such file",
        ),
        (["--gateway", "http://localhost:1", "--token-file", "none"], "--token-file none: No such"),
        (["--gateway", "http://localhost:1", "--self-test", "'"], "quotation"),
        ([], "--gateway"),
    ],
)
def test_wrong_call_is_explained(node: WorkerNode, words: list[str], text: str) -> None:
    with node.started("run", "--token-file", node.token, *words) as process:
        ran = AgentResult(process)
    assert ran.code == 2
    assert text in ran.err
    assert ran.out == ""


def test_agent_refuses_the_token_of_a_manager_before_it_asks_a_gateway(node: WorkerNode) -> None:
    """A gateway could only answer that no site has this token."""
    node.token.write_text("tqm_" + "x" * 43)
    words = ["run", "--gateway", "http://localhost:1", "--token-file", node.token]
    with node.started(*words) as process:
        ran = AgentResult(process)
    assert ran.code == 2
    assert "this is a manager's token; agents need a site's" in ran.err


def test_want_of_open_files_is_explained(node: WorkerNode, gateway: HttpGateway) -> None:
    """Who asks for too many slots learns what limits them."""
    few = 200
    with_handler(gateway.queue, kind="command", argv=["true"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    try:
        ran = node.run(gateway.url, slots=few)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert ran.code == 69
    assert f"`ulimit -n` allows too few for {few} slots" in ran.err


def test_missing_token_is_explained(node: WorkerNode) -> None:
    with node.started("run", "--gateway", "http://localhost:1") as process:
        ran = AgentResult(process)
    assert ran.code == 2
    assert "give --token-file or set TASKQ_TOKEN" in ran.err
