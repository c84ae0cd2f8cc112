"""`taskq-agent try`: a handler, a campaign file, and the files that its tasks share."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import taskq_agent
from taskq.model.campaign_spec import CampaignSpec
from taskq.model.handler import Handler
from taskq_agent.__main__ import main
from taskq_agent.protocol import PROTOCOL
from tests.helpers.paths import PAYLOADS
from tests.helpers.slot_harness import command, python

toml = pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python reads no TOML")


def tried(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, object]]:
    """Try something; return the exit code and how it ended."""
    code = main(["try", *map(str, words)])
    ended: dict[str, object] = json.loads(capsys.readouterr().out)
    return code, ended


def spec() -> CampaignSpec:
    """Return a campaign whose tasks read an input, a parameter and a field of the payload."""
    argv = ("sh", "-c", 'cat "$0"; echo "$1 $2 $TASKQ_CAMPAIGN"')
    values = ("{inputs.receptor}", "{params.side}", "{n}")
    handler = Handler("command", argv=argv + values)
    return CampaignSpec("/dock/1lf3", handler=handler, params={"side": 16}, time_limit_s=60.0)


@toml
def test_try_takes_campaign_and_inputs_from_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a campaign file says is tried as it stands, before anything is created."""
    receptor = tmp_path / "1lf3.pdbqt"
    receptor.write_text("ATOM\n")
    campaign = spec()
    assert campaign.handler is not None
    file = tmp_path / "campaign.toml"
    file.write_text(
        f'path = "{campaign.path}"\n[handler]\nkind = "command"\n'
        f"argv = {json.dumps(campaign.handler.argv)}\n"
        '[params]\nside = 16\n[limits]\ntime_limit_s = 60\n[seed]\nsweep = ["n=1:2"]\n'
    )
    words = ["--campaign-file", file, "--input", f"receptor={receptor}", "--payload", '{"n": 7}']
    code, ended = tried(capsys, *words)
    assert (code, ended["result"]) == (0, {"stdout": "ATOM\n16 7 /dock/1lf3"})
    code, ended = tried(capsys, *words, "--params", '{"side": 3}')
    assert ended["result"] == {"stdout": "ATOM\n3 7 /dock/1lf3"}


@pytest.mark.parametrize("batch", [None, 3])
def test_try_runs_each_payload_in_the_lines_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], batch: int | None
) -> None:
    log = str(tmp_path / "starts")
    payloads = [{"n": n, "do": do, "log": log} for n, do in enumerate(("well", "die", "well"), 1)]
    file = tmp_path / "payloads.jsonl"
    file.write_text("\n\n".join(map(json.dumps, payloads)))
    argv = ["sh", "-c", "test $0 = well", "{do}"]
    handler = {"kind": "command", "argv": argv}
    if batch is not None:
        argv = [sys.executable, str(PAYLOADS / "batcher.py"), "file", "{tasks}"]
        handler |= {"argv": argv, "batch": batch}
    code = main(["try", "--handler", json.dumps(handler), "--payloads", str(file)])
    ends = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {end["n"]: end["outcome"] for end in ends} == {1: "done", 2: "failed", 3: "done"}
    assert code == os.EX_TEMPFAIL
    if batch is not None:
        assert json.loads((tmp_path / "starts").read_text().splitlines()[0]) == [1, 2, 3]


def test_try_names_the_line_of_a_file_of_payloads_that_is_no_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "payloads.jsonl"
    for text, why in (("{}\n[]\n", "not a JSON object"), ("{}\n{\n", "not JSON")):
        file.write_text(text)
        assert main(["try", "--handler", "{}", "--payloads", str(file)]) == 2
        assert f"{file}, line 2: {why}" in capsys.readouterr().err


def test_try_takes_what_campaign_show_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON of the same keys, for any Python; an input is called as its file without a name."""
    receptor = tmp_path / "receptor"
    receptor.write_text("ATOM\n")
    file = tmp_path / "campaign.json"
    file.write_text(json.dumps(spec().to_json() | {"state": "open"}))
    words = ["--campaign-file", file, "--input", receptor, "--payload", '{"n": 7}']
    assert tried(capsys, *words)[1]["result"] == {"stdout": "ATOM\n16 7 /dock/1lf3"}


def test_time_limit_is_that_of_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Unless another is given."""
    file = tmp_path / "campaign.json"
    limits = {"time_limit_s": 0.1}
    file.write_text(json.dumps({"handler": command("sleep", "60"), "limits": limits}))
    code, ended = tried(capsys, "--campaign-file", file, "--grace", "0.1")
    assert (code, ended["error_class"]) == (75, "time-limit")


def test_large_result_is_printed_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no queue, there is nothing that could be referred to."""
    program = "import json, os; open(os.environ['TASKQ_RESULT'], 'w').write(json.dumps("
    program += "dict(x='y' * 300000)))"
    handler = json.dumps(command(sys.executable, "-c", program))
    result = tried(capsys, "--handler", handler)[1]["result"]
    assert isinstance(result, dict)
    assert hashlib.sha256(result["x"].encode()).digest() == hashlib.sha256(b"y" * 300_000).digest()
    assert tmp_path


EMPTY = "empty.json"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--campaign-file", "/nonexistent.toml"], "No such file"),
        (["--campaign-file", EMPTY, "--handler", "{}"], "not allowed with"),
        (["--campaign-file", EMPTY], "handler"),
        (["--handler", '{"kind": "command", "argv": ["a"]}', "--input", "/none"], "no such file"),
        (["--campaign-file", "/etc/passwd"], "not a campaign file"),
    ],
)
def test_wrong_call_of_try_names_what_is_wrong(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With code 2."""
    empty = tmp_path / EMPTY
    empty.write_text("{}")  # JSON: Python 3.10 reads no TOML
    words = [str(empty) if word == EMPTY else word for word in words]
    assert main(["try", *words]) == 2
    assert text in capsys.readouterr().err


def test_try_prints_how_the_attempt_ended(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--handler", json.dumps(python("add")), "--payload", '{"x": 1}']
    code = main(["try", *arguments, "--params", '{"offset": 41}', "--path", str(PAYLOADS)])
    ended = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (ended["outcome"], ended["result"]["sum"]) == ("done", 42)
    assert ended["phases"].keys() == {"prepare_s", "run_s", "cpu_s", "peak_bytes"}


def test_try_reads_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler, payload = tmp_path / "handler.json", tmp_path / "payload.json"
    handler.write_text(json.dumps(command("echo", "{x}")))
    payload.write_text('{"x": "from a file"}')
    assert main(["try", "--handler", str(handler), "--payload", str(payload)]) == 0
    assert json.loads(capsys.readouterr().out)["result"] == {"stdout": "from a file"}


def test_arguments_are_utf_8_in_any_locale(tmp_path: Path) -> None:
    """Also where Python takes the locale of a batch job for ASCII. So are names of programs."""
    program = tmp_path / "caf\u00e9"
    program.write_text('#!/bin/sh\nprintf "$@"\n')
    program.chmod(0o755)
    payload = '{"x": "caf\u00e9"}'
    argv = [sys.executable, "-m", "taskq_agent", "try", "--payload", payload]
    handler = json.dumps(command(str(program), "%s", "{x}{params.name}{scratch}"))
    done = subprocess.run(
        [*argv, "--handler", handler, "--params", '{"name": "\u00fc"}'],
        env={
            **os.environ,
            "LC_ALL": "POSIX",
            "PYTHONUTF8": "0",
            "PYTHONCOERCECLOCALE": "0",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        check=False,
    )
    ended = json.loads(done.stdout)
    assert (done.returncode, ended["outcome"]) == (0, "done"), done.stderr
    assert ended["result"]["stdout"].startswith("caf\u00e9\u00fc/")


@pytest.mark.parametrize(("exit_code", "expected"), [(1, 75), (75, 75), (65, 65), (69, 69)])
def test_try_exits_with_the_verdict(exit_code: int, expected: int) -> None:
    handler = json.dumps(command("sh", "-c", f"exit {exit_code}"))
    assert main(["try", "--handler", handler]) == expected


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--handler", "no-such-file.json"], "No such file"),
        (["--handler", "{broken"], "not JSON"),
        (["--handler", "/dev/null"], "not JSON"),
        (["--handler", '{"kind": "magic"}'], "magic"),
        (["--handler", '{"kind": "command", "argv": ["a"]}', "--time-limit", "0"], "above 0"),
        (["--handler", '{"kind": "command", "argv": ["a"]}', "--time-limit", "nan"], "above 0"),
        (
            ["--handler", '{"kind": "command", "argv": ["a"]}', "--grace", "-1"],
            "above 0",
        ),
        ([], "--handler"),
    ],
)
def test_wrong_call_is_explained(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_version_names_release_and_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["version"], ["--version"]):
        assert main(words) == 0
        assert f"protocol {PROTOCOL}" in capsys.readouterr().out


def test_agent_runs_from_one_file(tmp_path: Path) -> None:
    """A zip of the package is enough, also for the children and for what payloads import."""
    package = Path(taskq_agent.__file__).parent
    archive = tmp_path / "agent.pyz"
    root = tmp_path / "root"
    for source in package.rglob("*.py"):
        target = root / "taskq_agent" / source.relative_to(package)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source.read_bytes())
    (root / "__main__.py").write_text("from taskq_agent.__main__ import main\nmain()\n")
    subprocess.run([sys.executable, "-m", "zipapp", str(root), "-o", str(archive)], check=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    arguments = ["--handler", json.dumps(python("nothing")), "--path", str(PAYLOADS)]
    answer = subprocess.run(
        [sys.executable, "-S", str(archive), "try", *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert json.loads(answer.stdout)["outcome"] == "done"
