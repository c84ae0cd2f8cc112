"""All bugs that are seeded, the cheapest to find out about first."""

from __future__ import annotations

from typing import Final

from tests.mutants.acting import ACTING
from tests.mutants.agent import AGENT
from tests.mutants.batches import BATCHES
from tests.mutants.claims_together import CLAIMS_TOGETHER
from tests.mutants.computing import COMPUTING
from tests.mutants.fleet import FLEET
from tests.mutants.following import FOLLOWING
from tests.mutants.funnel import FUNNEL
from tests.mutants.hedging import HEDGING
from tests.mutants.library import LIBRARY
from tests.mutants.long_tasks import LONG_TASKS
from tests.mutants.looking import LOOKING
from tests.mutants.managing import MANAGING
from tests.mutants.mutant import Mutant
from tests.mutants.named_limits import NAMED_LIMITS
from tests.mutants.notify import NOTIFY
from tests.mutants.outputs import OUTPUTS
from tests.mutants.owners import OWNERS
from tests.mutants.pilots import PILOTS
from tests.mutants.reading import READING
from tests.mutants.resources import RESOURCES
from tests.mutants.rights import RIGHTS
from tests.mutants.sessions import SESSIONS
from tests.mutants.site_limits import SITE_LIMITS
from tests.mutants.statements import STATEMENTS
from tests.mutants.steering import STEERING
from tests.mutants.tracing import TRACING
from tests.mutants.updates import UPDATES
from tests.mutants.upkeep import UPKEEP
from tests.mutants.usage import USAGE

MUTANTS: Final[tuple[Mutant, ...]] = (
    *ACTING,
    *AGENT,
    *BATCHES,
    *LIBRARY,
    *COMPUTING,
    *FLEET,
    *LOOKING,
    *MANAGING,
    *NAMED_LIMITS,
    *NOTIFY,
    *OWNERS,
    *SESSIONS,
    *SITE_LIMITS,
    *PILOTS,
    *READING,
    *STATEMENTS,
    *RIGHTS,
    *CLAIMS_TOGETHER,
    *STEERING,
    *FOLLOWING,
    *FUNNEL,
    *LONG_TASKS,
    *RESOURCES,
    *OUTPUTS,
    *TRACING,
    *UPDATES,
    *HEDGING,
    *UPKEEP,
    *USAGE,
)
