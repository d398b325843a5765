import pytest

from neuronfleet.serving.emulator.clock import ScaledClock
from neuronfleet.serving.emulator.lateness import LatenessLog


def test_a_clock_runs_by_its_scale_from_absolute_times() -> None:
    now = [10.0]
    clock = ScaledClock(20.0, lambda: now[0])
    now[0] = 10.5

    assert clock.now_ms() == pytest.approx(10_000)
    assert clock.delay(12_000) == pytest.approx(0.1)
    assert clock.real_seconds(30) == 1.5


def test_a_slow_clock_is_allowed() -> None:
    now = [0.0]
    clock = ScaledClock(0.5, lambda: now[0])
    now[0] = 2.0

    assert clock.now_ms() == 1000


def test_no_time_passes_while_paused() -> None:
    now = [0.0]
    clock = ScaledClock(1.0, lambda: now[0])
    now[0] = 1.0
    clock.pause()
    now[0] = 5.0
    held = clock.now_ms()
    clock.resume()
    now[0] = 6.0

    assert held == 1000
    assert clock.now_ms() == 2000


def test_nothing_recorded_has_no_quantile() -> None:
    log = LatenessLog()

    assert log.quantile(0.99) is None
    assert not log.judge(1.0, 150).void


def test_quantiles_are_within_two_percent() -> None:
    log = LatenessLog()
    for number in range(1, 1001):
        log.record(number / 10)

    assert log.quantile(0.5) == pytest.approx(50, rel=0.021)
    assert log.quantile(0.99) == pytest.approx(99, rel=0.021)
    assert log.quantile(1.0) == 100


def test_a_run_is_void_by_its_lateness_in_emulated_time() -> None:
    log = LatenessLog()
    for _ in range(200):
        log.record(10.0)

    assert not log.judge(10.0, 150).void
    verdict = log.judge(20.0, 150)
    assert verdict.void
    assert verdict.reason is not None
    assert "must be in [0, 150]" in verdict.reason


def test_a_few_late_starts_void_nothing() -> None:
    log = LatenessLog()
    for _ in range(5):
        log.record(1000.0)

    assert not log.judge(1.0, 150).void
