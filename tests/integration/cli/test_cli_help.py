"""Every command explains itself, in its help and in docs/cli.md, with examples that are right."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from taskq_cli.main import main
from tests.helpers.paths import ROOT
from tests.helpers.typed_commands import parse

DOCUMENTATION = (ROOT / "docs/cli.md").read_text(encoding="utf-8")


def _commands(
    group: click.Group = main, names: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from _commands(command, (*names, name))


COMMANDS = dict(_commands())
every_command = pytest.mark.parametrize("names", COMMANDS, ids=" ".join)


def _examples(text: str) -> list[str]:
    """Return the command lines in a text, without what a shell adds to them."""
    return [line.strip() for line in re.findall(r"(taskq [a-z][^`|>)\n]*)", text)]


@every_command
def test_each_command_has_a_line_of_help_and_an_example(names: tuple[str, ...]) -> None:
    """`-h` tells in one line what a command does, and shows a use of it."""
    shown = CliRunner().invoke(main, [*names, "-h"])
    assert shown.exit_code == 0, shown.stderr
    summary = COMMANDS[names].get_short_help_str(1_000)
    assert re.fullmatch(r"[A-Z].{10,70}\.", summary), summary
    assert f"taskq {' '.join(names)}" in shown.stdout.partition("Example")[2]


@every_command
def test_each_option_says_what_it_is_for(names: tuple[str, ...]) -> None:
    """No option is left without a word about it."""
    for parameter in COMMANDS[names].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


@every_command
def test_examples_in_the_help_are_right(names: tuple[str, ...]) -> None:
    """An example can be typed as it stands."""
    _, _, examples = (COMMANDS[names].help or "").partition("\b\nExample")
    assert examples
    for line in _examples(examples):
        parse(line)


@pytest.mark.parametrize(
    "names",
    [names for names, command in COMMANDS.items() if not isinstance(command, click.Group)],
    ids=" ".join,
)
def test_each_command_is_documented_with_an_example(names: tuple[str, ...]) -> None:
    """docs/cli.md has a row for each command, with an example of just this command."""
    name = f"taskq {' '.join(names)}"
    (row,) = re.findall(
        rf"^\| `{name}` \| ([^|]+) \| `({name}\b[^`]*)` \|$", DOCUMENTATION, re.MULTILINE
    )
    assert row[0].strip()


def test_documented_examples_are_right() -> None:
    """What docs/cli.md says can be typed."""
    cells = re.findall(r"`(taskq [^`]*)` \|$", DOCUMENTATION, re.MULTILINE)
    blocks = re.findall(r"^```\n(.*?)^```", DOCUMENTATION, re.MULTILINE | re.DOTALL)
    assert cells
    assert blocks
    for line in _examples("\n".join([*cells, *blocks])):
        parse(line)


def test_documentation_names_no_command_that_is_not_there() -> None:
    """A command that was removed goes from docs/cli.md as well."""
    rows = re.findall(r"^\| `taskq ([a-z ]+)` \|", DOCUMENTATION, re.MULTILINE)
    assert {tuple(row.split()) for row in rows} <= COMMANDS.keys()


@pytest.mark.parametrize(
    "line",
    [
        "taskq hosts show n17",
        "taskq sites list /demo",
        "taskq pilots run",
        "taskq owners give /demo alice",
        "taskq agents drain --site cluster-b",
        "taskq agents /demo",
    ],
)
def test_nouns_may_be_singular_or_plural(line: str) -> None:
    """Both are accepted; the help names one."""
    parse(line)
    assert f"  {line.split()[1]} " not in CliRunner().invoke(main, ["-h"]).stdout


def test_mistyped_command_gets_a_proposal() -> None:
    """The error names the command that was probably meant."""
    result = CliRunner().invoke(main, ["staus"])
    assert result.exit_code == 2
    assert result.stderr == (
        "Error: No such command 'staus'. Did you mean 'status'? See `taskq -h`.\n"
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_each_shell(shell: str) -> None:
    """The script calls the program back under the variable that click looks for."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0, result.stderr
    assert "_TASKQ_COMPLETE" in result.stdout
