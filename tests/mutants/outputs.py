"""Bugs in what becomes of output files: whose they are, how much there is, where they go."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_STORED = ("tests/integration/files/test_outputs.py",)
_FETCHED = ("tests/integration/files/test_fetching.py",)
_PARTITIONS = ("tests/unit/test_partitions.py",)
_POSES = ("tests/integration/results/test_poses.py",)
_ACCEPTED: Final = """\
exists (
                        select
                          from taskq.attempt a
                         where a.campaign_id = v_one.campaign_id
                           and a.task_id = v_one.task_id
                           and a.lease_id = v_one.lease_id
                           and a.outcome::text = 'done')"""

OUTPUTS: Final = (
    Mutant(
        "output-by-anybody-who-knows-the-task",
        "sql/functions/files/save_output.sql",
        "taskq.bundle_of(p_campaign, p_task) b where b.lease_id = p_lease)",
        "taskq.bundle_of(p_campaign, p_task) b)",
        "Files are saved under a lease that nobody has.",
        _STORED,
    ),
    Mutant(
        "output-of-any-attempt",
        "sql/functions/results/outputs_of.sql",
        "                and a.lease_id = o.lease_id\n",
        "",
        "A task that is done has the files of an attempt that was lost.",
        _STORED,
    ),
    Mutant(
        "output-counted-again",
        "sql/functions/files/save_output.sql",
        "perform taskq.use_output(p_campaign, v_token, p_task, p_size - v_before);",
        "perform taskq.use_output(p_campaign, v_token, p_task, p_size);",
        "An attempt that saves several times uses up the campaign's room.",
        _STORED,
    ),
    Mutant(
        "output-counted-before-the-lock",
        "sql/functions/files/save_output.sql",
        "    perform taskq.use_output(p_campaign, v_token, p_task, 0);\n",
        "",
        "The same save, twice at once, is counted twice.",
        _STORED,
    ),
    Mutant(
        "output-of-a-late-result-removed",
        "sql/functions/files/end_outputs.sql",
        "taskq.is_given_up(a.outcome, a.error_class))",
        "a.outcome::text = 'hedged')",
        "A result that is salvaged, of a task that had failed, has lost its files.",
        _STORED,
    ),
    Mutant(
        "output-looked-at-in-two-snapshots",
        "sql/functions/files/end_outputs.sql",
        f"        select case when {_ACCEPTED}\n",
        f"        v_counts := {_ACCEPTED};\n        select case when v_counts\n",
        "Files of a result that is accepted during the look are removed.",
        _STORED,
    ),
    Mutant(
        "output-of-two-attempts-removed",
        "sql/functions/files/end_outputs.sql",
        "        if not found then  -- two attempts",
        "        if true then  -- two attempts",
        "Files that two attempts of a task have left alike go with the first.",
        _STORED,
    ),
    Mutant(
        "output-never-freed",
        "sql/functions/steering/remove_tasks.sql",
        "       set decided = false\n",
        "       set decided = true\n",
        "The files of removed campaigns stay for ever.",
        _STORED,
    ),
    Mutant(
        "fetched-through-links",
        "taskq/files/fetching.py",
        "_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC",
        "A link in the folder leads what is fetched elsewhere.",
        _FETCHED,
    ),
    Mutant(
        "archive-with-a-file-twice",
        "agents/taskq_agent/archive.py",
        "if parts in files or (is_file",
        "if (is_file",
        "Of two files of one name, two readers keep another one.",
        ("tests/unit/test_archive_blocks.py",),
    ),
    Mutant(
        "archive-of-any-kind",
        "agents/taskq_agent/tar.py",
        "kind not in (_FILE, _FOLDER, _PAX) or ",
        "",
        "Links and devices of an archive are taken for files.",
        ("tests/unit/test_archive_blocks.py",),
    ),
    Mutant(
        "columns-of-the-first-result",
        "taskq/results/tabular.py",
        "return not self._is_own(name), -self.counts[name]",
        "return not self._is_own(name), 0",
        "An agent chooses the columns of a table, and the values of all others are in the rest.",
        ("tests/unit/test_tables.py",),
    ),
    Mutant(
        "fetched-under-any-name",
        "taskq/files/archives.py",
        "                check_name(",
        "                str(",
        "A terminal shows what a stranger has named a file.",
        _FETCHED,
    ),
    Mutant(
        "field-ends-the-record",
        "taskq/results/sdf.py",
        ' and not line.startswith((">", "$$$$"))',
        "",
        "A value in a result begins another molecule in the file.",
        ("tests/unit/test_sdf.py",),
    ),
    Mutant(
        "bond-to-nowhere",
        "taskq/results/sdf.py",
        "all(_is_bond(line, atoms) for line in",
        "all(line for line in",
        "What is no mol block is in the file.",
        ("tests/unit/test_sdf.py",),
    ),
    Mutant(
        "any-of-several-poses",
        "taskq/results/poses.py",
        "        if len(found) > 1:\n",
        "        if len(found) > 2:\n",
        "The ligand that a task has read is taken for its pose.",
        _POSES,
    ),
    Mutant(
        "key-by-the-result",
        "taskq/results/poses.py",
        '{"result": result}), **own}',
        '{"result": result})}',
        "A result that has a key of its own passes for another task's.",
        _POSES,
    ),
    Mutant(
        "answer-to-another-pose",
        "taskq/results/poses.py",
        '            self.close()\n            raise NoMolecule("its',
        '            raise NoMolecule("its',
        "After a pose that takes too long, none is converted.",
        _POSES,
    ),
    Mutant(
        "folder-named-as-the-value",
        "taskq/results/partitions.py",
        "quote(as_text(value), safe=' ')",
        "as_text(value)",
        "A result names the place where an export writes.",
        _PARTITIONS,
    ),
    Mutant(
        "folder-for-any-value",
        "taskq/results/partitions.py",
        "                known.add(name)\n",
        "",
        "Of as many values as there are results, each has a file that is open.",
        _PARTITIONS,
    ),
    Mutant(
        "rows-of-the-last-group",
        "taskq/results/partitions.py",
        "        for name in list(waiting):\n            flush(name)\n",
        "",
        "What was not enough for a row group is not in the file.",
        _PARTITIONS,
    ),
)
