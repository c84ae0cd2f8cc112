"""The limits of campaign files, seed files and archives, a part of `limits_page`."""

from __future__ import annotations

from typing import Final

#: As `LIMITS` there.
OF_ARCHIVES: Final[dict[str, tuple[tuple[str, str, str], ...]]] = {
    "taskq.ingest.campaign_file": (("MAX_FILE_BYTES", "campaign file", "`UsageError`"),),
    "taskq.archives.manifest": (
        ("MAX_BYTES", "manifest of an archive", "`ArchiveDamaged`"),
        ("MAX_FILES", "files of an archive, without the content of blobs", "`ArchiveDamaged`"),
        ("MAX_CAMPAIGNS", "campaigns of an archive", "`ArchiveDamaged`"),
        ("MAX_ROWS", "rows of a file of an archive; its tasks", "`ArchiveDamaged`"),
        ("MAX_ID_SPAN", "how far apart ids of an archive are", "`ArchiveDamaged`"),
        ("MAX_TEXT_CHARS", "text in the manifest of an archive", "`ArchiveDamaged`"),
    ),
    "taskq_cli.commands.archive": (
        ("MOST_MEMORY_BYTES", "memory that a restore adds, on Linux", "`ArchiveDamaged`"),
    ),
    "taskq.archives.tables": (
        ("MAX_GROUP_BYTES", "row group of a file of an archive", "`ArchiveDamaged`"),
        ("MAX_FOOTER_BYTES", "description in a file of an archive", "`ArchiveDamaged`"),
        ("MAX_FILE_ROWS", "rows that such a file announces", "`ArchiveDamaged`"),
    ),
    "taskq.archives.checking": (
        ("MAX_VALUE_CHARS", "text in a row of an archive", "`ArchiveDamaged`"),
        ("MAX_RANGE_TASKS", "tasks of a range of an archive", "`ArchiveDamaged`"),
        (
            "MAX_SETTINGS_BYTES",
            "settings, and inputs, of a campaign of an archive",
            "`ArchiveDamaged`",
        ),
    ),
    "taskq.ingest.sources.lines": (("MAX_LINE_BYTES", "line of a seed file", "a bad line"),),
}
