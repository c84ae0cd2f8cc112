"""docs/archives.md can be typed in order, on embedded queues and with a real server of S3."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from tests.fixtures.s3_servers import S3Server
from tests.fixtures.servers import make_home, remove_home
from tests.helpers.tutorial import TUTORIALS, readers_shell

pytestmark = pytest.mark.thorough

PAGE = TUTORIALS.parent / "archives.md"
SCORE = """echo "{\\"score\\": -$((21 - $1))}" > "$TASKQ_RESULT"\n"""


def test_archives_page_is_typed_from_the_campaign_to_the_restored_one(
    tmp_path: Path, own_s3: S3Server
) -> None:
    """The campaign was made by an ordinary agent, and another one runs what was retried."""
    other, bucket = make_home(), f"s3://bucket/{secrets.token_hex(4)}/"
    names = {"$PWD/other": str(other), "s3://archives/": bucket}
    try:
        with readers_shell(tmp_path, own_s3.environment) as shell:
            (tmp_path / "score.sh").write_text(SCORE)
            shell.run("taskq campaign create /screens/first -- sh $PWD/score.sh '{n}'")
            shell.run("taskq seed /screens/first --sweep n=1:20")
            shell.run("taskq agent run --campaign /screens/first --until-empty --quiet")
            assert json.loads(shell.run("taskq status /screens/first -o json"))["done"] == 20
            assert shell.follow(PAGE, names) == 14
            assert "done" in shell.run("taskq history /screens/first n=7")
            assert len(shell.run("taskq results /screens/first -o jsonl").splitlines()) == 20
            assert shell.run("taskq audit /").endswith("no violations.\n")
    finally:
        remove_home(other)
