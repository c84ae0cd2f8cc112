"""`taskq plan` does its arithmetic right, and says where its figures are from."""

from __future__ import annotations

import pytest

from taskq.model.errors import UsageError
from taskq.planning.capacity import SEEN, Costs, Need, capacity
from tests.helpers.command_line import CommandLine

COSTS = Costs(
    statement_us=90.0,
    exchange_us=5.0,
    task_us=15.0,
    heartbeat_us=10.0,
    sync_us=110.0,
    log_task=600.0,
    log_claim=800.0,
    log_heartbeat=150.0,
    disk_task=500.0,
    disk_claim=250.0,
    vacuum_mb_s=100.0,
)
MILLION = Need(1_000_000, 300, tasks=1_000_000_000, cores=16)

command = CommandLine("host=/nowhere")


def test_study_with_amga_is_reproduced() -> None:
    """4,000 agents and 300 s made 133 requests/s of ten accesses each; 20,000 made 665."""
    assert capacity(Need(4_000, 300), COSTS).amga_per_s == pytest.approx(133, abs=0.5)
    assert capacity(Need(20_000, 300), COSTS).amga_per_s == pytest.approx(666.7, abs=0.1)


def test_million_agents_are_counted_together() -> None:
    """3,333 exchanges of 110 µs and 33,333 heartbeats of 10 µs a second, and their bytes."""
    found = capacity(MILLION, COSTS)
    assert (found.gateways, found.together) == (100, 1.0)
    assert found.exchange_cores == pytest.approx(3_333.3 * 110e-6, rel=1e-4)
    assert found.heartbeat_cores == pytest.approx(1 / 3)
    assert found.share == pytest.approx((0.36667 + 1 / 3) / 16, rel=1e-4)
    assert found.most_agents == pytest.approx(8e6 / (0.36667 + 1 / 3), rel=1e-4)
    assert found.log_bytes_per_s == pytest.approx(3_333.3 * 1_400 + 33_333.3 * 150, rel=1e-4)
    assert found.disk_bytes == pytest.approx(750e9)
    assert (found.vacuum_s, found.backup_s) == (pytest.approx(7_500), pytest.approx(3_750))
    assert found.duration_s == pytest.approx(300_000)


def test_batches_make_fewer_exchanges_and_as_many_tasks() -> None:
    """What an agent does at once is one exchange, which writes less for each task."""
    found = capacity(Need(1_000, 1, batch=50, tasks=100), COSTS)
    assert (found.tasks_per_s, found.exchanges_per_s) == (1_000, 20)
    assert found.disk_bytes == pytest.approx(100 * (500 + 250 / 50))


@pytest.mark.parametrize(
    ("per_s", "together"), [(10, 1), (5_000, 1 / 0.9), (40_000, 40), (50_000, 256), (1e6, 256)]
)
def test_exchanges_share_statements_the_more_come(per_s: float, together: float) -> None:
    """As many as arrive while one is under way: n = rate * (200 µs + 20 µs * n), 256 at most."""
    assert COSTS.together(per_s, 1) == pytest.approx(max(1, together))


def test_few_agents_of_short_tasks_cost_less_together() -> None:
    """What one gateway gets shares statements; through many, exchanges go alone."""
    value, many = (capacity(Need(agents, 0.2), COSTS) for agents in (8_000, 80_000))
    assert value.together > 30
    assert value.exchange_cores / value.exchanges_per_s < COSTS.exchanges_us(1, 1) / 4e6
    assert many.exchanges_per_s == 10 * value.exchanges_per_s


@pytest.mark.parametrize("wrong", [{"agents": 0}, {"batch": 0}, {"cores": 0}, {"task_s": 0.0}])
def test_nothing_is_divided_by_zero(wrong: dict[str, int]) -> None:
    """It is refused instead."""
    with pytest.raises(UsageError):
        Need(**{"agents": 1, "task_s": 1.0} | wrong)


def test_command_needs_no_server() -> None:
    """Arithmetic with figures that were seen is done anywhere, and says so."""
    words = ("plan", "--tasks", "1e9", "--agents", "1e6", "--task-time", "5m", "--cores", 16)
    plan = command.json(*words)
    assert plan["agents"] == 1_000_000
    assert plan["share"] == pytest.approx(capacity(MILLION, SEEN).share)
    assert plan["checks"] == []
    said = command.out(*words)
    assert "1,000,000,000 tasks in 3 d 11 h" in said
    assert "of 16; comfortable" in said
    assert "--measure measures this server" in said


def test_more_than_the_server_can_is_called_so() -> None:
    """The share says whether it will do."""
    words = ("plan", "--agents", "1e6", "--task-time", 1, "--cores", 1)
    assert "more than it can" in command.out(*words)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "nan", "inf", "1e99", "many", "9" * 400])
def test_numbers_that_mean_nothing_are_refused(text: str) -> None:
    """In one line."""
    code, said = command.refused("plan", "--agents", text, "--task-time", 1)
    assert code == UsageError.exit_code
    assert "1e9" in said


def test_tasks_that_take_no_time_are_refused() -> None:
    """Though there is no longest time."""
    code, said = command.refused("plan", "--agents", 1, "--task-time", "0")
    assert code == UsageError.exit_code
    assert "or more" in said
