"""Options of `taskq pilot add`: the settings of pilots, and how options become settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from taskq.model.errors import NotFound, UsageError
from taskq.pilots.settings import FILE, LINES, SETTINGS
from taskq_cli.options.shared import setting_option, setting_value, together

pilot_options: Final = together(*map(setting_option, SETTINGS.values()))


def default_folder() -> Path:
    """Return the folder under which each pilot has its own."""
    try:
        return Path.home() / "taskq-pilots"
    except RuntimeError:
        raise UsageError("there is no home folder: give --folder") from None


def as_table(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, with the keys of a pilot file; read what are files."""
    table = {
        key: setting_value(SETTINGS[key], value)
        for key, value in options.items()
        if value not in (None, (), False)
    }
    for key, value in table.items():
        kind, file = SETTINGS[key].kind, Path(f"{value}").absolute()
        if kind is FILE and not file.is_file():
            raise NotFound(f"{file}: no such file")
        if kind is FILE:
            table[key] = str(file)
        elif kind is LINES:
            try:
                table[key] = file.read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise NotFound(f"{file} cannot be read: {error}") from None
    table["folder"] = str(Path(table.get("folder") or default_folder() / name).absolute())
    return table
