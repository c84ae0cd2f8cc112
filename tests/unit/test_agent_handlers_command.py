from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from taskq_agent.protocol import DONE, FAILED, MAX_TAIL_BYTES, RELEASED
from tests.helpers.slot_harness import SlotHarness, command, shell, slot_in
from tests.helpers.variants import rest_thorough
from tests.helpers.waiting import BUSY_S


@pytest.mark.parametrize(
    ("code", "outcome", "retry", "refused"),
    [
        (0, DONE, True, False),
        (1, FAILED, True, False),
        (75, FAILED, True, False),
        (65, FAILED, False, False),
        (69, RELEASED, True, True),
    ],
)
def test_exit_code_says_what_follows(
    slot: SlotHarness, code: int, outcome: str, retry: bool, refused: bool
) -> None:
    """The contract of sysexits.h: 75 try again, 65 never, 69 not on this node."""
    ended = slot.run(command("sh", "-c", f"exit {code}"))
    assert (ended.outcome, ended.retry, ended.refused) == (outcome, retry, refused)
    assert not ended.node_broken
    if code:
        assert (ended.error_class, ended.exit_code) == (f"exit-{code}", code)


def test_signal_is_named(slot: SlotHarness) -> None:
    ended = slot.run(shell("kill -SEGV $$"))
    assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, True, "signal-SIGSEGV")
    assert ended.exit_code is None


def test_one_argument_stays_one_and_no_shell_sees_it(slot: SlotHarness) -> None:
    """Whatever a payload holds reaches the program as it is."""
    script = "import json, sys; print(json.dumps(dict(enumerate(sys.argv[1:]))))"
    values = {"text": "a b; $(touch x) `id` 'q' \"q\" {y}\n*", "n": 3, "f": 0.5, "l": [1, {"a": 2}]}
    handler = command(
        sys.executable,
        "-c",
        script.replace("{", "{{"),
        "{text}",
        "--n={n}",
        "{f}/{l}",
        "{params.size}",
        "{task.key}-{task.attempt}",
        "{{literal}}",
        "{scratch}",
    )
    ended = slot.run(handler, values, params={"size": "xl"}, key="k 1", attempt=3)
    assert ended.result is not None
    *arguments, scratch = ended.result.values()
    assert arguments == [values["text"], "--n=3", '0.5/[1,{"a":2}]', "xl", "k 1-3", "{literal}"]
    assert Path(scratch).is_relative_to(slot.scratch)


def test_missing_value_fails_for_good_and_is_named(slot: SlotHarness) -> None:
    handler = command("echo", "{there}", "{missing}")
    for payload in ({"there": 1}, {"there": 1, "missing": None}):
        ended = slot.run(handler, payload)
        assert (ended.outcome, ended.retry) == (FAILED, False)
        assert ended.error_class == "placeholder-missing"
        assert "{missing}" in str(ended.error)


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("echo chatter; echo '{\"a\": 1}'", {"a": 1}),
        ("echo '{\"a\": 1}' > $TASKQ_RESULT; echo '{\"a\": 2}'", {"a": 1}),
        ("printf 'progress\\r{\"a\": 3}'", {"a": 3}),
        ("echo -7.25", {"stdout": "-7.25"}),
        ("echo '{not json}'", {"stdout": "{not json}"}),
        ("echo '{\"a\": 1}'; echo after", {"stdout": '{"a": 1}\nafter'}),
        ("echo '{\"a\": 1}' >&2", {}),
        ("printf '\\000\\000\\033[0m'", {}),
        ("true", {}),
    ],
)
def test_result_is_taken_from_file_then_output(
    slot: SlotHarness, script: str, result: object
) -> None:
    ended = slot.run(shell(script))
    assert (ended.outcome, ended.result) == (DONE, result)


HUGE_FILE = """
printf '{"x":"' > "$TASKQ_RESULT"
head -c 67108864 /dev/zero | tr '\\0' y >> "$TASKQ_RESULT"
echo '"}' >> "$TASKQ_RESULT"
"""


@pytest.mark.parametrize(
    ("script", "text"),
    rest_thorough(
        [
            ("truncate -s 67108865 $TASKQ_RESULT", "67108865 bytes; 67108864 at most"),
            ("echo 'no json' > $TASKQ_RESULT", "not JSON"),
            ("echo '[1]' > $TASKQ_RESULT", "must be a JSON object, not list"),
            ("echo null > $TASKQ_RESULT; echo '{\"a\": 2}'", "must be a JSON object, not NoneType"),
            ("echo '{\"x\": NaN}' > $TASKQ_RESULT", "not JSON compliant"),
            ("echo '{\"x\": 1e999}' > $TASKQ_RESULT", "not JSON compliant"),
            ('echo \'{"x": "\\u0000"}\' > $TASKQ_RESULT', "NUL"),
            ("printf '\\377' > $TASKQ_RESULT", "not JSON"),
            (": > $TASKQ_RESULT", "not JSON"),
            ("mkfifo $TASKQ_RESULT", "not a regular file"),
            ("mkdir $TASKQ_RESULT", "not a regular file"),
            ("ln -s /dev/zero $TASKQ_RESULT", "not a regular file"),
            ("echo '{\"taskq_blob\": 1}'", "taskq's own"),
            ("echo '{\"x\": Infinity}'", "not JSON compliant"),
            ("printf '{\"x\": \"'; head -c 300000 /dev/zero | tr '\\0' y; echo '\"}'", "more than"),
            (HUGE_FILE, "67108873 bytes; 67108864 at most"),
        ],
        5,
    ),
)
def test_bad_result_fails_for_good_with_the_reason(
    slot: SlotHarness, script: str, text: str
) -> None:
    ended = slot.run(shell(script))
    assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, False, "bad-result")
    assert text in str(ended.error)


@pytest.mark.parametrize("to", ["", ' > "$TASKQ_RESULT"'])
def test_result_that_no_report_could_carry_fails_for_good(slot: SlotHarness, to: str) -> None:
    """At any depth, and with any number: an agent that tries to send it would fail itself."""
    nested = """printf '{"a": %s%s}' "$(printf '[%.0s' $(seq $1))" "$(printf ']%.0s' $(seq $1))\""""
    handler = shell(f'eval "$2" {to}', "{n}", "{script}")
    for depth, wanted in ((99, DONE), (100, FAILED), (960, FAILED), (9_000, FAILED)):
        ended = slot.run(handler, {"n": depth, "script": nested})
        assert (ended.outcome, ended.retry) == (wanted, wanted == DONE), depth
        assert wanted == DONE or "nested more than 100 deep" in (ended.error or "")
    ended = slot.run(handler, {"n": 5_000, "script": """printf '{"a": 7%0*d}' $1 7"""})
    assert (ended.outcome, ended.error_class, ended.retry) == (FAILED, "bad-result", False)
    assert "a whole number of thousands of digits" in str(ended.error)


@pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "./relative"])
def test_missing_program_refuses_the_campaign(slot: SlotHarness, program: str) -> None:
    """A wrong installation uses up no attempts, and says nothing about other campaigns."""
    ended = slot.run(command(program))
    assert (ended.outcome, ended.refused, ended.node_broken) == (RELEASED, True, False)
    assert ended.error_class == "command-not-found"
    assert program in str(ended.error)


def test_program_that_cannot_be_executed_refuses_the_campaign(
    slot: SlotHarness, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\0 no program")
    for mode in (0o600, 0o700):
        program.chmod(mode)
        ended = slot.run(command(str(program)))
        assert (ended.refused, ended.error_class) == (True, "command-not-executable")


def test_argument_that_no_program_can_take_fails_for_good(slot: SlotHarness) -> None:
    for value, error_class in (("a\0b", "bad-argument"), ("y" * 200_000, "arguments-too-long")):
        ended = slot.run(command("echo", "{x}"), {"x": value})
        assert (ended.retry, ended.node_broken, ended.error_class) == (False, False, error_class)


def test_endless_output_is_kept_to_its_end(slot: SlotHarness) -> None:
    """However much is written, a bounded tail remains, and nothing goes to the disk."""
    ended = slot.run(shell("head -c 200000000 /dev/zero | tr '\\0' 'z'; echo; echo last words"))
    assert ended.outcome == DONE
    assert ended.tail is not None
    assert len(ended.tail.encode()) == MAX_TAIL_BYTES
    assert ended.tail.endswith("z\nlast words\n")


def test_binary_output_becomes_text(slot: SlotHarness) -> None:
    """NUL, escapes and bytes that are no UTF-8 would choke the database or a terminal."""
    ended = slot.run(
        shell("printf 'a\\0b\\033[31mred\\033[0m\\033]0;title\\007 \\377\\303\\244 x\\ry\\r\\n'")
    )
    assert ended.tail == "abred \ufffd\u00e4 x\ny\n"
    ended = slot.run(shell("head -c 100000 /dev/urandom >&2"))
    assert ended.tail is not None
    assert 0 < len(ended.tail.encode()) <= MAX_TAIL_BYTES
    assert "\0" not in ended.tail


STUBBORN = """
trap '' TERM
sleep 600 &
setsid sleep 600 > /dev/null 2>&1 < /dev/null &
(trap '' TERM; sleep 600; sleep 600) > /dev/null 2>&1 &
echo started > "$1"
while true; do sleep 600; done
"""


def test_time_limit_ends_all_that_a_stubborn_payload_has_started(tmp_path: Path) -> None:
    """SIGTERM, the grace, SIGKILL: also for who ignores SIGTERM or has left the session."""
    ready = tmp_path / "ready"
    with slot_in(tmp_path, grace_s=0.3) as slot:
        ended, limit_s = slot.run_into_limit(shell(STUBBORN, str(ready)), {}, ready)
        assert (ended.outcome, ended.retry, ended.error_class) == (FAILED, True, "time-limit")
        assert f"{limit_s:g} s" in str(ended.error)
        assert limit_s <= ended.phases["run_s"] < limit_s + 5
        slot.wait_until_alone()


def test_polite_payload_may_clear_up_in_the_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = "trap 'echo cleared; exit 0' TERM; touch \"$1\"; while true; do sleep 0.01; done"
    with slot_in(tmp_path, grace_s=600) as slot:
        ended, _ = slot.run_into_limit(shell(script, str(ready)), {}, ready)
        assert ended.error_class == "time-limit"
        assert "cleared\n" in str(ended.tail)


def test_stopped_attempt_is_released(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with slot_in(tmp_path, grace_s=0.2) as slot:
        with slot.stopped_once(ready.exists), slot.stopped_once(ready.exists):
            ended = slot.run(shell(STUBBORN, str(ready)))
        assert (ended.outcome, ended.node_broken) == (RELEASED, False)
        assert ended.error_class == "stopped"
        slot.wait_until_alone()


def test_stop_between_attempts_does_nothing(slot: SlotHarness) -> None:
    slot.runner.stop()
    assert slot.run(command("true")).outcome == DONE
    slot.runner.stop()
    assert slot.run(command("true")).outcome == DONE


@pytest.mark.parametrize("start", ["sleep 600 &", "sleep 600 > /dev/null 2>&1 &"])
def test_background_processes_end_with_the_attempt(slot: SlotHarness, start: str) -> None:
    """They are not waited for, whether or not they hold the output open."""
    began = time.monotonic()
    assert slot.run(shell(f"{start} echo done")).result == {"stdout": "done"}
    assert time.monotonic() - began < BUSY_S
    slot.wait_until_alone()


def test_process_that_left_the_session_cannot_hold_the_attempt_open(slot: SlotHarness) -> None:
    began = time.monotonic()
    assert slot.run(shell("setsid sleep 600 & sleep 0.1; echo done")).outcome == DONE
    assert time.monotonic() - began < BUSY_S
    slot.wait_until_alone()


def test_payload_learns_its_task_but_no_secret(
    slot: SlotHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = ["TASKQ_DSN", "TASKQ_TOKEN", "TASKQ_TOKEN_FILE", "PGPASSWORD", "PGHOST", "PGSERVICE"]
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("PGI", "/opt/pgi")
    monkeypatch.setenv("PGPLOT_DIR", "/opt/pgplot")
    script = "import json, os; print(json.dumps({**os.environ, 'cwd': os.getcwd()}))"
    handler = command(sys.executable, "-c", script.replace("{", "{{").replace("}", "}}"))
    result = slot.run(handler, key="k", attempt=2).result
    assert result is not None
    assert not {name for name, value in result.items() if value == "secret"}
    assert (result["PGI"], result["PGPLOT_DIR"]) == ("/opt/pgi", "/opt/pgplot")
    scratch = result["TASKQ_SCRATCH"]
    assert {name: result[name] for name in result if name.startswith("TASKQ_")} == {
        "TASKQ_CAMPAIGN": "/tests",
        "TASKQ_INPUTS": "{}",
        "TASKQ_SLOT": "0",
        "TASKQ_TASK": "7",
        "TASKQ_KEY": "k",
        "TASKQ_ATTEMPT": "2",
        "TASKQ_SCRATCH": scratch,
        "TASKQ_RESULT": f"{scratch}/taskq-result.json",
        "TASKQ_PROGRESS": f"{scratch}/taskq-progress",
        "TASKQ_AGENT": result["TASKQ_AGENT"],
    }
    assert result["TMPDIR"] == result["cwd"] == scratch


@pytest.mark.parametrize(
    "leave",
    [
        "setsid sleep 600",
        "setsid setsid sh -c 'sleep 600; true'",
        "nohup sh -c 'cd / && exec sleep 600'",
        "(trap '' TERM HUP; sleep 600)",
    ],
)
def test_process_left_behind_is_gone_before_the_next_task(slot: SlotHarness, leave: str) -> None:
    """Also after a success, and in a session of its own: it writes no later task's result."""
    for end in ("exit 0", "exit 3"):
        slot.run(shell(f"{leave} < /dev/null > /dev/null 2>&1 & {end}"))
        assert slot.processes() == []


def test_open_files_do_not_add_up(slot: SlotHarness) -> None:
    slot.run(command("true"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        slot.run(command("echo", json.dumps([1])))
        slot.run(command("no-such-program"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
