"""`taskq-agent try` with a campaign file and the files that its tasks share."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from taskq.model.campaign_spec import CampaignSpec
from taskq.model.handler import Handler
from taskq_agent.__main__ import main
from tests.helpers.slot_harness import command

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


def test_the_time_limit_is_that_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless another is given."""
    file = tmp_path / "campaign.json"
    limits = {"time_limit_s": 0.1}
    file.write_text(json.dumps({"handler": command("sleep", "60"), "limits": limits}))
    code, ended = tried(capsys, "--campaign-file", file, "--grace", "0.1")
    assert (code, ended["error_class"]) == (75, "time-limit")


def test_a_large_result_is_printed_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
        (["--campaign-file", "/etc/passwd"], "no campaign file"),
    ],
)
def test_what_cannot_be_tried_is_a_wrong_call(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With the name of what is wrong."""
    empty = tmp_path / EMPTY
    empty.write_text("{}")  # JSON: Python 3.10 reads no TOML
    words = [str(empty) if word == EMPTY else word for word in words]
    with pytest.raises(SystemExit) as error:
        main(["try", *words])
    assert error.value.code == 2
    assert text in capsys.readouterr().err
