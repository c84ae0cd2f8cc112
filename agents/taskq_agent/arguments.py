"""Types of the arguments of `taskq-agent`: each function checks and converts one."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple, TypeVar

from taskq_agent import binds, variables
from taskq_agent.binds import Bind
from taskq_agent.http.gateways import parsed
from taskq_agent.named_resources import named_amount
from taskq_agent.paths import exists, is_dir, is_file
from taskq_agent.streams import argument
from taskq_agent.text import is_unicode
from taskq_agent.units import size_in_bytes, time_s

_T = TypeVar("_T")


def text(word: str) -> str:
    """Return text for the queue, which must be Unicode; only file names may have other bytes."""
    word = argument(word)
    if not is_unicode(word):
        shown = os.fsencode(word).decode("ascii", "backslashreplace")
        raise argparse.ArgumentTypeError(f"'{shown}' is not UTF-8; only names of files may not be")
    return word


def json_object(word: str) -> Dict[str, Any]:
    """Return the JSON object in the argument, or in the file that it names."""
    in_place = word.lstrip().startswith("{")
    try:
        value = json.loads(text(word) if in_place else Path(word).read_bytes())
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{word}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{word}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{word}: not a JSON object")
    return value


def json_objects(word: str) -> List[Dict[str, Any]]:
    """Return the JSON objects in the lines of a file; empty lines do not count."""
    try:
        lines = Path(word).read_bytes().splitlines()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{word}: {error.strerror}") from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            text = f"{word}, line {number}: not JSON: {error}"
            raise argparse.ArgumentTypeError(text) from None
        if not isinstance(value, dict):
            raise argparse.ArgumentTypeError(f"{word}, line {number}: not a JSON object")
        found.append(value)
    return found


def campaign_file(word: str) -> Dict[str, Any]:
    """Return the content of a campaign file, TOML or JSON; its values are not checked."""
    try:
        data = Path(word).read_bytes()
        return dict(json.loads(data) if data.lstrip().startswith(b"{") else _toml(data))
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{word}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"{word}: not a campaign file: {error}") from None


def _toml(data: bytes) -> Dict[str, Any]:
    try:
        loads = importlib.import_module("tomllib").loads  # not before Python 3.11
    except ImportError:
        version = "{}.{}".format(*sys.version_info[:2])
        hint = "give what `taskq campaign show PATH -o json` writes"
        raise ValueError(f"Python {version} reads no TOML; {hint}") from None
    content: Dict[str, Any] = loads(data.decode("utf-8-sig"))
    return content


def named_file(word: str) -> Tuple[str, Path]:
    """Return name and path of `NAME=FILE`; without `NAME=`, the name is the file's."""
    name, equals, path = word.partition("=")
    file = Path(path if equals else word)
    if not is_file(file):
        raise argparse.ArgumentTypeError(f"{file}: no such file")
    return text(name if equals else file.name), file


def bind(word: str) -> Bind:
    """Return a bind for all containers."""
    return _read(binds.of_site, word)


def bind_allowed(word: str) -> Bind:
    """Return what campaigns may bind."""
    return _read(binds.allowance, word)


def variable(word: str) -> str:
    """Return the name of a variable that campaigns may ask for."""
    _read(variables.check_name, word)
    return word


def _read(read: Callable[[str], _T], word: str) -> _T:
    try:
        return read(text(word))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds(word: str) -> float:
    """Return a time of at least 0."""
    return _time(word, "of 0 or more", lambda value: value >= 0)


def seconds_above_0(word: str) -> float:
    """Return a time above 0."""
    return _time(word, "above 0", lambda value: value > 0)


def _time(word: str, which: str, is_allowed: Callable[[float], bool]) -> float:
    try:
        value = time_s(word)
    except ValueError:
        value = math.nan
    if not is_allowed(value) or value == math.inf:
        raise argparse.ArgumentTypeError(
            f"{word!r} must be a time {which}, such as 90s, 30m or 2h; a number alone is seconds"
        )
    return value


def count(word: str) -> int:
    """Return a whole number of at least 1."""
    if not (word.isdecimal() and int(word) > 0):
        raise argparse.ArgumentTypeError(f"{word!r} must be a whole number above 0")
    return int(word)


def size(word: str) -> int:
    """Return the bytes of a size."""
    try:
        return size_in_bytes(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def resource(word: str) -> Tuple[str, int]:
    """Return the name and the amount of a named resource."""
    try:
        return named_amount(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def folder(word: str) -> Path:
    """Return the absolute path of a folder, which need not exist.

    Absolute, since children are started in other folders.
    """
    path = Path(word).absolute()
    if exists(path) and not is_dir(path):
        raise argparse.ArgumentTypeError(f"{word}: not a folder")
    return path


def existing_folder(word: str) -> Path:
    """Return the absolute path of an existing folder."""
    if not is_dir(Path(word)):
        raise argparse.ArgumentTypeError(f"{word}: no such folder")
    return Path(word).absolute()


def gateway(word: str) -> str:
    """Return the URL of a gateway; whether `http` is allowed is checked later."""
    try:
        parsed(word, insecure=True)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return word


def campaign(word: str) -> str:
    """Return the path of a campaign."""
    if not text(word).startswith("/"):
        raise argparse.ArgumentTypeError(f"{word}: a campaign's path begins with /")
    return word


def command(word: str) -> List[str]:
    """Return the words of a command line, quoted as for a shell; no shell runs it."""
    try:
        words = shlex.split(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{word}: {error}") from None
    if not words:
        raise argparse.ArgumentTypeError("the command is empty")
    return words
