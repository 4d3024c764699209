"""`kaboost doctor`: look at everything that a start needs, and change nothing."""

from collections.abc import Iterator

from kaboost.service.config.settings import Settings
from kaboost.service.onboarding.broker_checks import check_broker
from kaboost.service.onboarding.machine_checks import check_machine
from kaboost.service.onboarding.record_checks import check_records, check_registry
from kaboost.service.onboarding.report import Check
from kaboost.service.onboarding.state_checks import check_state


def examine(settings: Settings) -> Iterator[Check]:
    """Yield every check as it is done; records are read only where their topics are there."""
    broker = check_broker(settings)
    yield from broker
    registry = check_registry(settings)
    yield from registry
    if all(check.status != "red" for check in [*broker, *registry]):
        yield from check_records(settings)
    if all(check.status != "red" for check in broker):
        yield from check_state(settings)
    yield from check_machine(settings)
