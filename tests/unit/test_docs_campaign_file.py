"""docs/campaign-file.md says all that the parser of campaign files takes, and nothing else."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from taskq.ingest.campaign_file import read_campaign_file
from taskq.ingest.sources import SourceOptions
from taskq.model.errors import InvalidCampaign
from taskq.model.settings import REQUIRED
from tests.helpers import campaign_file_page
from tests.helpers.campaign_file_page import SETTINGS, page

PAGE = campaign_file_page.PAGE.read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `([a-zA-Z_.]+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
DOCUMENTED = {key: default.strip() for key, _, default in ROWS}
EXAMPLE = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]


def _keys() -> dict[str, object]:
    """Return the keys that the parser takes, with the defaults of its values."""
    seed = {f"seed.{name}": None for name in ("file", "format", "sweep")}
    seed |= {f"seed.{field.name}": field.default for field in fields(SourceOptions)}
    return {setting.key: setting.default for setting in SETTINGS} | seed


def test_tables_are_those_of_the_declarations() -> None:
    """`make schema` writes them."""
    assert page() == PAGE, "run `make schema`"


def test_table_of_pilots_is_that_of_their_declarations() -> None:
    """`make schema` writes it."""
    file = campaign_file_page.PILOTS_PAGE
    assert page(file) == file.read_text(encoding="utf-8"), "run `make schema`"


def test_every_key_is_on_the_page() -> None:
    """One that is new in the parser is new on the page, and one that is gone there goes."""
    assert DOCUMENTED.keys() == _keys().keys()


@pytest.mark.parametrize("key", sorted(_keys()))
def test_defaults_are_those_of_the_parser(key: str) -> None:
    """What stands in backquotes is the value; words stand where there is none."""
    default, said = _keys()[key], DOCUMENTED[key]
    if said.startswith("`"):
        assert json.loads(said.strip("`")) == ([] if default in (None, ()) else default)
    else:
        assert default in (None, "", REQUIRED)


def test_example_has_every_key_and_is_right(tmp_path: Path) -> None:
    """It can be used as it stands; what does not go with the rest of it is left out."""
    file = tmp_path / "campaign.toml"
    file.write_text(EXAMPLE)
    described = read_campaign_file(file)
    assert described.spec.path == "/wisdom/malaria/1lf3"
    assert described.seed is not None
    table = ""
    shown = set()
    for line in EXAMPLE.splitlines():
        if found := re.fullmatch(r"\[(\w+)\]", line):
            table = f"{found[1]}."
        elif found := re.match(r"(\w+) = ", line):
            shown.add(table + found[1])
    others = {
        "hedge",  # it excludes limits.max_running
        "handler.argv",
        *("handler.container", "handler.binds", "handler.env", "handler.pass_env"),
        "seed.smiles_field",
        "resources.NAME",
        "resources.scratch",
        "params.receptor",
        "params.exhaustiveness",
    }
    of_functions = ("name", "archive", "python", "seal", "fingerprint", "parts")  # all machines
    of_batches = ("batch", "line", "ordered", "batch_limit_s", "batch_silence_s", "batch_divide_s")
    of_functions += of_batches  # they exclude limits.checkpoint_bytes
    others |= {f"handler.{name}" for name in of_functions}
    assert shown ^ DOCUMENTED.keys() == others


@pytest.mark.parametrize("table", ["", "[handler]", "[retry]", "[limits]", "[seed]"])
def test_key_that_is_not_on_the_page_is_refused(tmp_path: Path, table: str) -> None:
    """A slip is noticed, wherever it is, unless it may be a named resource."""
    file = tmp_path / "campaign.toml"
    whole = EXAMPLE.replace(table, f"{table}\nslip = 1", 1) if table else f"slip = 1\n{EXAMPLE}"
    file.write_text(whole)
    with pytest.raises(InvalidCampaign, match="slip"):
        read_campaign_file(file)
