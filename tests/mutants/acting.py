"""Bugs in acts of viewers in pages."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Mutant

_ACTING: Final = "taskq/gateway/web/acting.py"
_ACTS: Final = "taskq/gateway/web/acts.py"
_APP: Final = "taskq/gateway/web/app.py"
_TEST: Final = "tests/integration/web/test_acts.py"

ACTING: Final = (
    Mutant(
        "act-by-the-form-of-another-site",
        _APP,
        'if relation in {"same-origin", "none"}:',
        'if relation != "":',
        "A page of another site makes a viewer's browser send forms.",
        (f"{_TEST}::test_page_of_somebody_else_makes_no_browser_act",),
    ),
    Mutant(
        "act-by-the-ticket-of-another-viewer",
        _ACTING,
        "json.dumps([viewer.key, dict(",
        'json.dumps(["", dict(',
        "A ticket that one viewer got has another one's browser act.",
        (f"{_TEST}::test_form_without_a_ticket_of_the_viewer_does_nothing",),
    ),
    Mutant(
        "act-on-more-than-was-shown",
        _ACTING,
        "if act.tasks > int(seen) * (1 + _GROWTH):",
        "if act.tasks < 0:",
        "An old page cancels tasks that it has not counted.",
        (f"{_TEST}::test_page_that_has_become_wrong_is_confirmed_anew",),
    ),
    Mutant(
        "act-twice-by-a-double-click",
        _ACTING,
        "        self._known[ticket] = _Under(",
        '        self._known[""] = _Under(',
        "A reload cancels again what somebody has resumed meanwhile.",
        (f"{_TEST}::test_double_click_acts_once",),
    ),
    Mutant(
        "act-takes-fields-of-others",
        _ACTS,
        'if odd := fields.keys() - {"do", "path", *_TAKES.get(verb, ())}:',
        "if odd := set[str]():",
        "A form that names a class cancels all tasks.",
        (f"{_TEST}::test_field_that_an_act_does_not_take_is_refused",),
    ),
)
