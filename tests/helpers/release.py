"""What a release needs in addition to tests: `make release` checks it, `make site` adds its manual.

python -m tests.helpers.release             end with 1 and what is missing
python -m tests.helpers.release FOLDER      put build/site into FOLDER as the manual of this release
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path
from typing import Final

from taskq.model.version import VERSION
from tests.helpers.paths import ROOT
from tests.helpers.surface import gone, release_before

#: The release whose farm `tests/upgrade` upgrades; None: this one, to a made-up next one.
UPGRADED: Final[str | None] = None

_PLACEHOLDER: Final = re.compile(r"\b\S*\bexample\.(?:org|com|net)\b")

_FIRST_PAGE: Final = """\
<!doctype html><title>taskq</title><meta http-equiv="refresh" content="0; url={latest}/index.html">
<h1>taskq</h1><ul>{versions}</ul>
"""


def missing(root: Path) -> list[str]:
    """Return what keeps the checkout in root from being published, in words."""
    config = ConfigParser(interpolation=None)
    config.read(root / "setup.cfg")
    url = config["metadata"]["url"]
    found = []
    if _PLACEHOLDER.search(url):
        found.append(f"setup.cfg: set url, which is {url}, to the address of the site")
    security = (root / "SECURITY.md").read_text(encoding="utf-8")
    if placeholder := _PLACEHOLDER.search(security):
        found.append(f"SECURITY.md: replace {placeholder[0]} by an address that somebody reads")
    heading = re.escape(f"## {VERSION} (") + r"\d{4}-\d\d-\d\d\)$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE):
        found.append(f"CHANGELOG.md: date the release, as in `## {VERSION} (2026-03-01)`")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    if f'version: "{VERSION}"' not in citation:
        found.append(f'CITATION.cff: name the release, `version: "{VERSION}"`')
    if removed := gone(root):
        found.append(
            "docs/surface.txt: name in CHANGELOG.md, under Removed, what users lose: "
            + ", ".join(f"`{line.partition(': ')[2]}`" for line in removed)
        )
    if (before := release_before(root)) != UPGRADED:
        found.append(
            f"tests/upgrade: upgrade a farm of {before} to this release, and say so by UPGRADED"
        )
    status: list[Path | str] = ["git", "-C", root, "status", "--porcelain"]
    if subprocess.run(status, check=True, capture_output=True).stdout:
        found.append("git status: commit or remove what is not committed")
    return found


def place_site(built: Path, folder: Path) -> None:
    """Copy the site to a folder of its release, and list all releases there, the newest first."""
    shutil.rmtree(folder / VERSION, ignore_errors=True)
    shutil.copytree(built, folder / VERSION)
    names = [path.name for path in folder.iterdir() if re.fullmatch(r"\d+(\.\d+)+", path.name)]
    newest = sorted(names, key=lambda name: [int(part) for part in name.split(".")], reverse=True)
    listed = [{"version": name, "title": name, "aliases": []} for name in newest]
    (folder / "versions.json").write_text(json.dumps(listed), encoding="utf-8")
    links = "".join(f'<li><a href="{name}/index.html">{name}</a>' for name in newest)
    page = _FIRST_PAGE.format(latest=newest[0], versions=links)
    (folder / "index.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        place_site(ROOT / "build/site", Path(sys.argv[1]))
    elif lacking := missing(ROOT):
        sys.exit("\n".join(lacking))
