"""The tables of settings in docs/campaign-file.md and docs/fleet.md, each below its mark.

`python -m tests.helpers.campaign_file_page` writes them anew from the declarations of the settings.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from taskq.model.campaign_spec import CampaignSpec
from taskq.model.handler import Handler
from taskq.model.retry_policy import RetryPolicy
from taskq.model.settings import REQUIRED, Setting, settings
from taskq.pilots import settings as pilots
from tests.helpers.limits_page import ROOT

PAGE: Final = ROOT / "docs/campaign-file.md"
PILOTS_PAGE: Final = ROOT / "docs/fleet.md"
MARK: Final = re.compile(r"(<!-- (\w+): written by `make schema`. -->\n).*?\n(?=\n)", re.DOTALL)
SETTINGS: Final = [
    setting for kind in (CampaignSpec, Handler, RetryPolicy) for setting in settings(kind).values()
]


def _row(setting: Setting) -> str:
    values = setting.values.removeprefix("a ")
    if setting.choices:
        *first, last = (f'`"{choice}"`' for choice in setting.choices)
        values = f"{', '.join(first)} or {last}"
    default = "required" if setting.default is REQUIRED else "none"
    if setting.default not in (REQUIRED, None):
        default = f"`{json.dumps(setting.default)}`"
    text = f"{', '.join(setting.drivers)}: {setting.text}" if setting.drivers else setting.text
    return f"| `{setting.key}` | {values} | {default} | {text} |\n"


def _table(name: str) -> str:
    table = name.replace("campaign", "")
    chosen = [setting for setting in SETTINGS if setting.table == table]
    rows = map(_row, pilots.SETTINGS.values() if name == "pilots" else chosen)
    return "| key | type | default | means |\n|---|---|---|---|\n" + "".join(rows)


def page(path: Path = PAGE) -> str:
    """Return a page as it should be."""
    return MARK.sub(lambda mark: f"{mark[1]}\n{_table(mark[2])}", path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for file in (PAGE, PILOTS_PAGE):
        file.write_text(page(file), encoding="utf-8")
