"""Requirements of campaigns, as the server and explanations take them."""

from __future__ import annotations

from taskq.model.requirements import missing
from tests.helpers.postgres import Postgres, value


def test_requirements_are_met_as_the_server_says(postgres: Postgres) -> None:
    """Both have one rule."""
    requires = ["gpu", "arch=a100", "mem>=16", "n=1.0", "v>=2.5"]
    offers = ["gpu", "gpu=yes", "arch=a100", "arch=h100", "mem=16", "mem=15.9", "mem=lots", "n=1"]
    for tag in requires:
        for offer in [*offers, "v=2.50", "v", "n=01"]:
            said = value(postgres, "select taskq.offered(%s, %s)", [tag], [offer])
            assert (missing([tag], [offer]) == []) == said, (tag, offer)
