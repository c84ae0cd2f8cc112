"""Each flag of the command line has one meaning, whatever the command."""

from __future__ import annotations

import re
from collections import defaultdict

from click.testing import CliRunner

from taskq_cli.main import main
from taskq_cli.program import CONNECTION
from tests.helpers.flags_page import MEANINGS, PAGE, flags, options, page, shape

#: Verbs of commands that take something away, and say before what that would be.
REMOVES = {
    "ban",
    "cancel",
    "clean",
    "drain",
    "flush",
    "index",
    "rebuild",
    "recover",
    "revoke",
    "rm",
}


def test_each_flag_takes_one_kind_of_value() -> None:
    """A flag with a second meaning mostly takes another kind of value, or is a switch."""
    for flag, of in flags().items():
        kinds = {shape(option): command for command, option in of}
        assert len(kinds) == 1, (flag, kinds)


def test_each_flag_has_one_meaning_in_all_commands() -> None:
    """Where commands describe it in different words, what they have in common is written down."""
    texts: dict[str, set[str | None]] = defaultdict(set)
    for flag, of in flags().items():
        texts[flag] = {option.help for _, option in of}
    assert {flag for flag, found in texts.items() if len(found) > 1} == MEANINGS.keys()
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make schema`"


def test_each_default_has_a_unit_where_its_option_is_a_time_or_a_size() -> None:
    """A default that is a bare number would leave open what it counts."""
    times = [option for _, option in options() if option.metavar in {"TIME", "SIZE", "TIME|none"}]
    assert len(times) > 10
    for option in times:
        default = re.search(r"default: (.*?)\]", option.help or "")
        assert default is None or not re.fullmatch(r"[\d.,]+", default[1]), option.help


def test_commands_that_remove_something_have_a_dry_run() -> None:
    """By `--dry-run`."""
    removing = {command for command, _ in options() if command.split()[-1] in REMOVES}
    assert len(removing) > 10
    assert removing == removing & {command for command, _ in flags()["--dry-run"]}


def test_all_commands_take_the_same_connection_under_one_heading() -> None:
    """Only the script for completion needs no queue; what reads may read from a standby."""
    names: dict[str, set[str]] = defaultdict(set)
    for command, option in options():
        if option.name in CONNECTION:
            names[command].add(option.name)
    assert {command for command, _ in options()} == names.keys()
    assert {frozenset(found) for found in names.values()} == {
        frozenset({"dsn", "url"}),
        frozenset(CONNECTION),
    }
    shown = CliRunner().invoke(main, ["status", "-h"]).stdout
    before, _, connection = shown.partition("\nConnection:\n")
    of = [f"--{name.replace('_', '-')} " for name in CONNECTION]
    assert not any(flag in before for flag in of)
    assert all(flag in connection for flag in of)
