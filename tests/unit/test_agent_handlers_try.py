from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import taskq_agent
from taskq_agent.__main__ import main
from tests.helpers.paths import PAYLOADS
from tests.helpers.slot_harness import command, python


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


def test_arguments_are_utf_8_in_any_locale() -> None:
    """Also where Python takes the locale of a batch job for ASCII."""
    payload = '{"x": "caf\u00e9"}'
    argv = [sys.executable, "-m", "taskq_agent", "try", "--payload", payload]
    handler = json.dumps(command("printenv", "TASKQ_KEY"))
    done = subprocess.run(
        [*argv, "--handler", handler, "--params", '{"name": "\u00fc"}'],
        env={**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)["outcome"]) == (0, "done"), done.stderr


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
    with pytest.raises(SystemExit) as error:
        main(["try", *arguments])
    assert error.value.code == 2
    assert text in capsys.readouterr().err


def test_version_names_release_and_protocol(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert "protocol 1" in capsys.readouterr().out


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
