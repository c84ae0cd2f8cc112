"""The packages, which setup.cfg cannot find because they stand in four folders."""

import warnings

from setuptools import find_packages, setup

ROOTS = {
    "taskq": "taskq",
    "taskq.sql": "sql",
    "taskq_agent": "agents/taskq_agent",
    "taskq_cli": "cli/taskq_cli",
}

# Folders here have the names of packages, as an editable installation warns: it is meant so.
warnings.filterwarnings("ignore", "Editable installation")

setup(
    package_dir=ROOTS,
    packages=[
        name
        for root, folder in ROOTS.items()
        for name in (root, *(f"{root}.{below}" for below in find_packages(folder)))
    ],
)
