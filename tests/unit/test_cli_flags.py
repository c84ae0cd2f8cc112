"""Each flag of the command line has one meaning, whatever the command."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import click

from taskq_cli.main import main

#: Flags that several commands describe in different words: the one thing that they all mean.
MEANINGS = {
    "--best": "how many of the best results to take",
    "--by": "the field with the number that ranks",
    "--lowest": "the lowest numbers are best",
    "--highest": "the highest numbers are best",
    "--so-far": "choose the best although tasks are unfinished",
    "--campaign": "the campaign that it is about, with all below it",
    "--campaign-file": "the TOML file that describes a campaign",
    "--cursor": "the file that lists what was written before",
    "--dry-run": "show what would happen, and change nothing",
    "--follow": "go on with what comes",
    "--format": "the format of the data",
    "--output": "the format of what a command writes",
    "-o": "the format of what a command writes",
    "--gateway": "the URL of a gateway for agents",
    "--cores": "a number of cores",
    "--gpus": "a number of GPUs",
    "--memory": "an amount of memory",
    "--slots": "the tasks that an agent runs at the same time",
    "--offer": "a tag that agents offer",
    "--idle-timeout": "the time after which an agent without tasks leaves",
    "--time-limit": "the longest time that it may take",
    "--name": "the name of the agent or input",
    "--plain": "serve other machines without TLS",
    "--status": "the status of tasks",
    "--to": "where it goes: a file, a folder, a receiver",
    "--weight": "the share in relation to others",
}
#: Flags that still mean two things. None may be added.
TWO_MEANINGS = {
    "--host": "where an agent runs; for `gateway` where to listen",
    "--key": "the key of a task; for `seed` and `prioritise` the field that holds it",
    "--port": "where `gateway` listens; for `up` a further port of PostgreSQL",
    "--priority": "a priority; for `seed` the field that holds it",
    "--site": "the site of agents; for `token create` the kind of token",
}


def options(command: click.Command, path: str = "taskq") -> Iterator[tuple[str, click.Option]]:
    """Yield the options of a command and of all its sub-commands, with the commands' names."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from options(inner, f"{path} {name}")
        return
    yield from ((path, one) for one in command.params if isinstance(one, click.Option))


def test_each_flag_has_one_meaning_in_all_commands() -> None:
    """One that is described in several ways is in the table, with what they have in common."""
    texts: dict[str, set[str | None]] = defaultdict(set)
    switches: dict[str, dict[bool, str]] = defaultdict(dict)
    for command, one in options(main):
        for flag in (*one.opts, *one.secondary_opts):
            texts[flag].add(one.help)
            switches[flag][one.is_flag] = command
    several = {flag for flag, found in texts.items() if len(found) > 1}
    assert several == MEANINGS.keys() | TWO_MEANINGS.keys()
    mixed = {flag: commands for flag, commands in switches.items() if len(commands) > 1}
    assert mixed.keys() == {"--site"}, mixed


def test_each_time_has_a_unit() -> None:
    """A default that is a bare number would leave open what it counts."""
    times = [(command, one) for command, one in options(main) if one.metavar == "TIME"]
    assert len(times) > 10
    for command, one in times:
        default = (one.help or "").partition("default: ")[2]
        assert not default.rstrip("].").replace(".", "").isdecimal(), (command, one.help)
