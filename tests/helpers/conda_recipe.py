"""The recipe of conda-forge in deploy/conda, written from setup.cfg.

`python -m tests.helpers.conda_recipe` writes it. The names of PyPI are those of conda-forge, apart
from those in `NAMES`.
"""

from __future__ import annotations

import json
import re
from configparser import ConfigParser
from typing import Any, Final

import yaml

from taskq.model.version import VERSION
from tests.helpers.paths import ROOT

RECIPE: Final = ROOT / "deploy/conda/recipe.yaml"
HEAD: Final = """\
# Builds this checkout, written from setup.cfg by `make schema`. The embedded server is conda's:
# TASKQ_PG_BIN=$CONDA_PREFIX/bin.
"""
NAMES: Final = {
    "psycopg[binary,pool]": ("psycopg", "psycopg-c", "psycopg-pool"),
    "redis[hiredis]": ("redis-py", "hiredis"),
}
#: The extras that the package has, since conda has no optional dependencies.
EXTRAS: Final = ("front", "gateway", "web")


def setup() -> ConfigParser:
    """Return setup.cfg."""
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    return config


def dependencies(text: str) -> list[str]:
    """Return the requirements in a part of setup.cfg, as conda spells them.

    A package without an architecture has all of them, whatever the version of Python.
    """
    found = []
    for line in filter(None, text.splitlines()):
        requirement = line.split(";")[0]
        match = re.fullmatch(r"([\w.\[\],-]+)\s*(.*)", requirement.strip())
        assert match is not None, line
        names = NAMES.get(match[1], (match[1],))
        limits = match[2].replace(" ", "")
        found += [f"{name} {limits}".strip() for name in names[:1]] + list(names[1:])
    return found


def recipe() -> dict[str, Any]:
    """Return the recipe as rattler-build reads it."""
    config = setup()
    options, metadata = config["options"], config["metadata"]
    run = dependencies(options["install_requires"])
    for extra in EXTRAS:
        run += dependencies(config["options.extras_require"][extra])
    least = options["python_requires"]
    commands = config["options.entry_points"]["console_scripts"].strip().splitlines()
    return {
        "context": {"name": metadata["name"], "version": VERSION},
        "package": {"name": "${{ name }}", "version": "${{ version }}"},
        "source": {"path": "../.."},
        "build": {
            "number": 0,
            "noarch": "python",
            "script": "${{ PYTHON }} -m pip install . --no-deps --no-build-isolation -vv",
            "python": {"entry_points": commands},
        },
        "requirements": {
            "host": [f"python {least}", "pip", "setuptools >=68"],
            "run": [f"python {least}", *sorted(set(run))],
        },
        "tests": [
            {"python": {"imports": ["taskq", "taskq_agent", "taskq_cli"], "pip_check": False}},
            {"script": ["taskq --version", "taskq-agent run -h"]},
        ],
        "about": {
            "summary": metadata["description"],
            "license": metadata["license"],
            "license_file": metadata["license_files"],
        },
    }


def text() -> str:
    """Return the file as it should be."""
    return HEAD + yaml.safe_dump(json.loads(json.dumps(recipe())), sort_keys=False, width=120)


if __name__ == "__main__":
    RECIPE.write_text(text(), encoding="utf-8")
