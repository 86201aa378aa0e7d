from migration_service.payment_vendors.breaker import CircuitBreaker


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_breaker_opens_only_after_failures_in_a_row() -> None:
    breaker = CircuitBreaker(failures_to_open=3, open_seconds=10, clock=Clock())
    for _ in range(5):
        breaker.record_failure()
        breaker.record_failure()
        breaker.record_success()
    assert breaker.allows_call()
    for _ in range(3):
        breaker.record_failure()
    assert not breaker.allows_call()


def test_after_the_pause_one_call_is_allowed_and_its_success_closes_the_breaker() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures_to_open=1, open_seconds=10, clock=clock)
    breaker.record_failure()
    clock.now = 9.9
    assert not breaker.allows_call()
    clock.now = 10.0
    assert [breaker.allows_call() for _ in range(3)] == [True, False, False]
    breaker.record_success()
    assert [breaker.allows_call() for _ in range(3)] == [True, True, True]


def test_a_failed_trial_starts_another_pause() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures_to_open=1, open_seconds=10, clock=clock)
    breaker.record_failure()
    clock.now = 10.0
    assert breaker.allows_call()
    clock.now = 13.0
    breaker.record_failure()
    clock.now = 22.9
    assert not breaker.allows_call()
    clock.now = 23.0
    assert breaker.allows_call()


def test_a_trial_without_an_outcome_does_not_keep_the_breaker_open_forever() -> None:
    clock = Clock()
    breaker = CircuitBreaker(failures_to_open=1, open_seconds=10, clock=clock)
    breaker.record_failure()
    clock.now = 10.0
    assert breaker.allows_call()
    clock.now = 20.0
    assert breaker.allows_call()
