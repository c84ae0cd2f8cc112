"""Facts without what maintenance explains: what would be judged by time though it is repaired."""

from __future__ import annotations

from dataclasses import replace

from taskq.diagnosis.facts import Facts
from taskq.diagnosis.maintenance import MaintenanceWindow
from taskq.model.seed import is_within


def unjudged(facts: Facts) -> Facts:
    """Return facts without what would be judged by time though it is repaired, or was lately."""
    path, windows = facts.status.path, facts.windows
    if not windows:
        return facts
    lasting = [it for it in windows if it.lasts]

    def covered(campaign: str, site: str, host: str) -> bool:
        return any(it.covers(campaign, site, host) for it in lasting)

    findings = facts.findings
    if findings is not None:
        findings = replace(
            findings,
            hosts=[
                replace(it, slow=None) if covered(path, it.site, it.name) else it
                for it in findings.hosts
            ],
            sites=[
                replace(it, slow=None) if covered(path, it.name, "") else it
                for it in findings.sites
            ],
        )
    return replace(
        facts,
        findings=findings,
        overdue=[it for it in facts.overdue if not covered(it.campaign, "", it.host)],
        lost=[it for it in facts.lost if not covered(path, it.site, it.host)],
        past=None if any(_slows(it, path) for it in windows) else facts.past,
    )


def _slows(window: MaintenanceWindow, path: str) -> bool:
    """Return whether a window explains that few tasks end: a quarter of an hour is compared.

    One of single hosts does not.
    """
    is_large = bool(window.sites) or not window.hosts
    return window.begins <= window.now and is_large and is_within(path, window.path)
