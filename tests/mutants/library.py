"""Bugs in the library: gathered exchanges, the gateway, the front, seeding."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_BATCHING: Final = ("tests/integration/sessions/test_batching.py",)
_S3: Final = ("tests/integration/files/test_s3_blobs.py",)

LIBRARY: Final = (
    Mutant(
        "answers-mixed-up",
        "taskq/dispatch/batching.py",
        "for submitted, answer in zip(some, answers, strict=True):",
        "for submitted, answer in zip(some, reversed(answers), strict=True):",
        "Of several agents that share a statement, each gets the answer of another.",
        _BATCHING,
    ),
    Mutant(
        "answer-before-commit",
        "taskq/dispatch/batching.py",
        "        loop = asyncio.get_running_loop()\n        if self._queue.put(",
        "        if submitted.exchange.fences and not submitted.exchange.want:\n"
        "            from taskq_agent.protocol import Ack\n"
        "            acks = tuple(Ack(*one, 'accepted') for one in submitted.exchange.fences)\n"
        "            submitted.callback, callback = lambda _: None, submitted.callback\n"
        "            callback(Answer(acks))\n"
        "        loop = asyncio.get_running_loop()\n"
        "        if self._queue.put(",
        "Reports are acknowledged before they are in the database.",
        ("tests/integration/gateway/test_recovering_server.py", *_BATCHING),
    ),
    Mutant(
        "tasks-are-their-leases",
        "taskq/dispatch/exchange.py",
        "by_session = {claim.exchange.session: claim for claim in call.claims}",
        "by_lease = {claim.exchange.lease: claim for claim in call.claims}\n"
        "        by_session = {"
        "claim.exchange.session: by_lease[claim.exchange.lease] for claim in call.claims}",
        "Of two sessions that claim under one lease id one gets the tasks of both.",
        ("tests/integration/sessions/test_hostile_members.py",),
    ),
    Mutant(
        "spent-lease-strikes-off",
        "taskq/dispatch/exchange.py",
        "if claim.order is None or claim.is_over or claim.exchange.session in failed:",
        "if claim.order is None or claim.tasks or claim.exchange.session in failed:",
        "A claim under a lease id that its task has had makes the campaign look empty.",
        ("tests/integration/sessions/test_hostile_members.py",),
    ),
    Mutant(
        "avoided-task-strikes-off",
        "taskq/dispatch/exchange.py",
        "            if claim.exchange.session in avoided:\n",
        "            if False:\n",
        "A host that may not have what waits makes the campaign look empty to others.",
        ("tests/integration/claims/test_claims_that_avoid.py",),
    ),
    Mutant(
        "one-bad-exchange-fails-all",
        "taskq/dispatch/halves.py",
        "        if len(batch) == 1 or not is_of_one(error):",
        "        if batch:",
        "The error of one exchange goes to all that share its statement.",
        ("tests/integration/sessions/test_hostile_members.py",),
    ),
    Mutant(
        "exchange-that-nobody-awaits",
        "taskq/dispatch/fair_queue.py",
        "while queue and queue[0].callback is None:",
        "while False:",
        "A claim that was given up takes tasks for nobody.",
        _BATCHING,
    ),
    Mutant(
        "repeated-claim-goes-elsewhere",
        "taskq/dispatch/exchange.py",
        "if not claim.aimed and lease == claim.exchange.lease and campaign not in left_out:",
        "if False:",
        "A claim that is repeated may go to another campaign, where nothing is known of it.",
        ("tests/unit/test_exchanging.py",),
    ),
    Mutant(
        "report-over-http-is-not-fenced",
        "taskq/gateway/messages.py",
        "    message.session = session\n",
        "",
        "Over HTTP an agent may report on the attempts of every other site.",
        ("tests/integration/gateway/test_rights.py",),
    ),
    Mutant(
        "manager-of-what-sounds-alike",
        "sql/functions/campaigns/at_or_below.sql",
        "starts_with(p_path, rtrim(p_top, '/') || '/')",
        "starts_with(p_path, p_top)",
        "A manager's token is good for campaigns whose names begin alike.",
        ("tests/integration/gateway/test_rights.py",),
    ),
    Mutant(
        "viewer-of-what-sounds-alike",
        "taskq/model/seed.py",
        'path.startswith(scope.rstrip("/") + "/")',
        "path.startswith(scope)",
        "A viewer of pages sees campaigns whose names begin alike.",
        ("tests/integration/web/test_access.py",),
    ),
    Mutant(
        "unsealed-entry-is-taken",
        "taskq/front/entries.py",
        "if not hmac.compare_digest(digest[:_TAG].encode(), raw[:_TAG]):",
        "if False:",
        "Anybody who writes into Redis makes tasks.",
        ("tests/unit/test_front_entries.py",),
    ),
    Mutant(
        "entry-outlives-its-lease",
        "taskq/front/entries.py",
        "/ 1000 + self.pool_s / 2",
        "/ 1000 + self.pool_s * 2",
        "Entries are handed out whose lease with the pool has run out.",
        ("tests/unit/test_front_entries.py",),
    ),
    Mutant(
        "pop-of-another-epoch",
        "taskq/front/scripts/pop.lua",
        "if state[1] ~= ARGV[1] then",
        "if not state[1] then",
        "Entries of an epoch that is over are popped.",
        ("tests/integration/front/test_front_scripts.py",),
    ),
    Mutant(
        "claim-repeated-at-the-front",
        "taskq/front/buffer.py",
        "if answered is None or answered[0] != lease:",
        "if answered is None or answered[0] != lease or answered:",
        "A claim from the front that is repeated gets other tasks.",
        ("tests/unit/test_front_memory.py",),
    ),
    Mutant(
        "last-of-one-key-counts",
        "taskq/ingest/seeding.py",
        "before = tasks.setdefault(key, record)",
        "before = tasks[key] = record",
        "Of records with the same key the last one counts.",
        (
            "tests/integration/seeding/test_seeding.py",
            "tests/integration/seeding/test_key_conflicts.py",
        ),
    ),
    Mutant(
        "records-of-a-chunk-not-compared",
        "taskq/ingest/seeding.py",
        "for row in known] + chunk.again",
        "for row in known]",
        "Of two payloads with one key in a chunk the second is dropped without a word.",
        ("tests/integration/seeding/test_key_conflicts.py",),
    ),
    Mutant(
        "numbers-of-another-text",
        "taskq/ingest/sources/records.py",
        "return value if str(value) == text else text",
        "return value",
        "In a pipe 1.10 and 1.1 become one value.",
        ("tests/unit/test_sources_accounts.py",),
    ),
    Mutant(
        "rows-that-no-survey-saw",
        "taskq/ingest/sources/table.py",
        "same_number_or_text if self._feed.reread else number",
        "number",
        "A value behind a bad row is altered to a number, since nobody looked at it before.",
        ("tests/unit/test_sources_accounts.py",),
    ),
    Mutant(
        "molecules-without-a-delimiter-merge",
        "taskq/ingest/sources/sdf.py",
        'elif first == "M" and line.startswith(_END):',
        'elif first == "M" and block.ended_at is None and line.startswith(_END):',
        "Two molecules without $$$$ between them become one.",
        ("tests/unit/test_corpus.py",),
    ),
    Mutant(
        "extension-is-the-name",
        "taskq/ingest/sources/smiles.py",
        'if split is None and line[0] > " " and "|" not in line:',
        'if split is None and line[0] > " ":',
        "The extension of a CXSMILES becomes the name of its molecule.",
        ("tests/unit/test_corpus.py",),
    ),
    Mutant(
        "session-token-for-anybody-who-knows-the-key",
        "taskq/db/tokens.py",
        "hmac.digest(_bytes(enrolment_token), key.encode(), ",
        "hmac.digest(b'taskq', key.encode(), ",
        "Who knows the key of a hello works out the token of its session.",
        ("tests/integration/sessions/tokens/test_opening.py",),
    ),
    Mutant(
        "s3-reads-from-the-start",
        "taskq/files/s3_store.py",
        'options: Any = None if whole else {"range": part}',
        "options: Any = None",
        "A transfer from S3 that is resumed gets the blob from its start.",
        _S3,
    ),
    Mutant(
        "s3-takes-a-refusal-for-absence",
        "taskq/files/s3_store.py",
        "        except FileNotFoundError:\n            raise NotFound(",
        "        except (FileNotFoundError, *self._refusals):\n            raise NotFound(",
        "What S3 refuses to show is taken for lost.",
        _S3,
    ),
    Mutant(
        "s3-profile-before-the-environment",
        "taskq/files/s3_store.py",
        " and not environ.keys() & {*_FOUND_BY_OBSTORE}:",
        ":",
        "Credentials of a file are used although the environment has others.",
        _S3,
    ),
    Mutant(
        "s3-whole-blob-in-memory",
        "taskq/files/s3_store.py",
        "use_multipart=size > PART_BYTES",
        "use_multipart=False",
        "A large blob is held in memory, and sent in one request.",
        _S3,
    ),
    Mutant(
        "last-key-of-a-chunk-not-looked-up",
        "sql/functions/seeding/seed_within.sql",
        "s.key <= p_high",
        "s.key < p_high",
        "Seeding fails where of a chunk's keys just the last is known.",
        ("tests/integration/seeding/test_seeding.py",),
    ),
)
