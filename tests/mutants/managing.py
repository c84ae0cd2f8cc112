"""Bugs in what managers' tokens may do over a gateway, functions by value among it."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_PERMIT: Final = "sql/functions/rights/permit.sql"
_CHANGE: Final = "sql/functions/campaigns/change_campaign.sql"
_OFFERED: Final = "taskq/gateway/manager_statements.py"
_RIGHTS: Final = (
    "tests/integration/gateway/test_gateway_role.py",
    "tests/integration/gateway/test_manager_queries.py",
)

MANAGING: Final = (
    Mutant(
        "functions-by-value-by-the-gateways-right",
        _PERMIT,
        "set_config('taskq.token_kind', kind, true)",
        "set_config('taskq.token_kind', '', true)",
        "Any submitter's token has agents unpickle, if the gateway's login may.",
        _RIGHTS,
    ),
    Mutant(
        "functions-by-value-from-submitters",
        _CHANGE,
        "                and coalesce(v_token, '') in ('', 'pickler'))\n",
        "                and true)\n",
        "A submitter's token has agents unpickle what it sends.",
        _RIGHTS,
    ),
    Mutant(
        "functions-by-value-copied",
        _CHANGE,
        "c.path = p_path and c.handler",
        "c.path <> '' and c.handler",
        "A submitter gives a pickler's function to a campaign of its own, with its seal.",
        _RIGHTS,
    ),
    Mutant(
        "settings-changed-from-before-the-lock",
        _CHANGE,
        "where c.path = p_path for no key update",
        "where c.path = p_path",
        "Of two changes at once, the later takes the earlier one's settings back.",
        ("tests/interleavings/test_seeds.py",),
    ),
    Mutant(
        "headers-need-not-say-all",
        "taskq/db/headers.py",
        '            raise self.wrong(f"@{key} is missing")',
        "            return None",
        "What nobody has thought of is nobody's, or anybody's, without a word.",
        ("tests/unit/test_catalogue.py",),
    ),
    Mutant(
        "seal-for-managers",
        "sql/queries/campaign.sql",
        "-- @gateway manager, instead campaign_unsealed",
        "-- @gateway manager",
        "A manager's token learns the key that seals arguments, and has agents unpickle others.",
        _RIGHTS,
    ),
    Mutant(
        "managers-submit",
        _CHANGE,
        "-- @gateway submitter",
        "-- @gateway manager",
        "A manager's token says what agents execute.",
        _RIGHTS,
    ),
    Mutant(
        "kind-of-token-not-asked",
        _PERMIT,
        "if v_token.kind < p_kind::taskq.token_kind then",
        "if v_token.kind is null then",
        "A manager's token does what a submitter's is for.",
        _RIGHTS,
    ),
    Mutant(
        "campaigns-by-id-not-asked",
        _OFFERED,
        'return paths, [values["campaign"]] if "campaign" in values else []',
        "return paths, []",
        "A token reads and changes others' tasks by the ids of their campaigns.",
        _RIGHTS,
    ),
    Mutant(
        "token-for-neighbours",
        _PERMIT,
        "taskq.at_or_below(a.path, own.path)",
        "starts_with(a.path, own.path)",
        "A token for /a is one for /ab.",
        _RIGHTS,
    ),
    Mutant(
        "revoked-token-manages",
        _PERMIT,
        "       and t.revoked_at is null\n",
        "",
        "A manager goes on with a token that was revoked.",
        _RIGHTS,
    ),
    Mutant(
        "expired-token-manages",
        _PERMIT,
        "       and t.expires_at > clock_timestamp();\n",
        "       and true;\n",
        "A manager goes on with a token that has expired.",
        ("tests/integration/sessions/tokens/test_ending.py",),
    ),
)
