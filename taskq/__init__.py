"""taskq hands out the tasks of very large campaigns to thousands of agents that pull.

with taskq.connect() as queue:
    campaign = queue.create_campaign(taskq.CampaignSpec("/demo", handler=...))
    campaign.seed({"seed": n} for n in range(1000))
    campaign.wait()
    for result in campaign.results():
        ...
"""

from __future__ import annotations

from taskq.campaign import Campaign
from taskq.client import Client, connect
from taskq.errors import TaskqError
from taskq.spec.model import Seed
from taskq.spec.spec import CampaignSpec, Handler, RetryPolicy
from taskq.version import VERSION

__version__ = VERSION

__all__ = [
    "Campaign",
    "CampaignSpec",
    "Client",
    "Handler",
    "RetryPolicy",
    "Seed",
    "TaskqError",
    "connect",
]
