"""The table of flags that several commands share, in docs/cli.md.

`python -m tests.helpers.flags_page` writes it. A flag that commands describe in different words has
the one thing that they all mean in `MEANINGS`; of the others the help says it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

import click

from taskq_cli.main import main
from tests.helpers.paths import ROOT

PAGE: Final = ROOT / "docs/cli.md"
MARK: Final = re.compile(r"(<!-- flags: written by `make schema`. -->\n).*?\n(?=\n)", re.DOTALL)
HEAD: Final = "| Flag | Value | Meaning | Commands |\n|---|---|---|---|\n"
MOST_NAMED: Final = 6
MEANINGS: Final = {
    "--best": "how many of the best results to take",
    "--by": "the field with the number that ranks",
    "--campaign": "the campaign that it is about, with all below it",
    "--campaign-file": "the TOML file that describes a campaign",
    "--cores": "a number of cores",
    "--cursor": "the file that lists what was written before",
    "--dry-run": "show what would happen, and change nothing",
    "--follow": "go on with what comes",
    "--format": "the format of the data",
    "--gateway": "the URL of a gateway for agents",
    "--gpus": "a number of GPUs",
    "--highest": "the highest numbers are best",
    "--host": "the machine of agents",
    "--idle-timeout": "the time after which an agent without tasks leaves",
    "--interval": "the time between two looks",
    "--lowest": "the lowest numbers are best",
    "--memory": "an amount of memory",
    "--name": "the name of the agent or input",
    "--key-field": "the field that holds the key",
    "--offer": "a tag that agents offer",
    "--output": "the format of what a command writes",
    "--resource": "the amount of a named resource",
    "--recipe": "the recipe that is shown, or whose results are ranked",
    "--since": "the time from which on it counts",
    "--site": "the site of agents",
    "--slots": "the tasks that an agent runs at the same time",
    "--so-far": "choose the best although tasks are unfinished",
    "--status": "the status of tasks",
    "--time-limit": "the longest time that it may take",
    "--timeout": "how long to wait",
    "--to": "where it goes: a file, a folder, a receiver",
    "--until": "when it ends",
    "--weight": "the share in relation to others",
    "--why": "the reason, which all see",
}


def options(command: click.Command = main, path: str = "") -> Iterator[tuple[str, click.Option]]:
    """Yield the options of a command and of all its sub-commands, with the commands' names."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from options(inner, f"{path} {name}".lstrip())
        return
    yield from ((path, param) for param in command.params if isinstance(param, click.Option))


def shape(option: click.Option) -> str:
    """Return the placeholder of an option's value; "" for a switch."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return "CHOICE"
    return re.sub(r"\|(none|P%)", "", option.metavar or option.type.name.upper())


def flags() -> dict[str, list[tuple[str, click.Option]]]:
    """Return each long flag with the commands that have it."""
    found: dict[str, list[tuple[str, click.Option]]] = defaultdict(list)
    for command, option in options():
        for flag in (*option.opts, *option.secondary_opts):
            if flag.startswith("--"):
                found[flag].append((command, option))
    return found


def _row(flag: str, of: list[tuple[str, click.Option]]) -> str:
    meaning = MEANINGS.get(flag) or re.split(r"\.(?: |$)|; |: |, such as", of[0][1].help or "")[0]
    names = ", ".join(f"`{command}`" for command, _ in of)
    commands = names if len(of) <= MOST_NAMED else f"{len(of)} commands"
    value = shape(of[0][1]).replace("|", "\\|")
    return f"| `{flag}` | {value} | {meaning[0].upper()}{meaning[1:]} | {commands} |\n"


def page() -> str:
    """Return the page as it should be."""
    several = {flag: of for flag, of in flags().items() if len(of) > 1 and _apart(of)}
    table = HEAD + "".join(_row(flag, of) for flag, of in sorted(several.items()))
    return MARK.sub(lambda mark: f"{mark[1]}\n{table}", PAGE.read_text(encoding="utf-8"))


def _apart(of: list[tuple[str, click.Option]]) -> bool:
    """Return whether a flag is of more than the pairs `create` and `change`, `host` and `site`."""
    return {command for command, _ in of} not in (
        {"campaign change", "campaign create"},
        {"host ban", "site ban"},
        {"host list", "site list"},
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
