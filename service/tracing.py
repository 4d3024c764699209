"""Whether a process is traced: the library is loaded only where the settings want it."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kaboost.service.config.settings import Settings
from kaboost.service.errors import ConfigError
from kaboost.service.request_context import RequestIds


class Traces(Protocol):
    """The spans of one process."""

    def request(
        self, name: str, ids: RequestIds
    ) -> AbstractContextManager[tuple[Any, RequestIds]]: ...
    def learning(self, records: Sequence[Any]) -> AbstractContextManager[None]: ...
    def publishing(self) -> AbstractContextManager[None]: ...
    def close(self) -> None: ...


def make_traces(settings: Settings, process: str) -> Traces | None:
    """Make the traces of a process; None if the settings want none."""
    endpoint = settings.otel.endpoint
    if endpoint is None:
        return None
    try:
        from kaboost.service.otel_traces import OtelTraces
    except ImportError as err:
        raise ConfigError(
            f"otel.endpoint = {endpoint}: traces need the extra otel: pip install 'kaboost[otel]'"
        ) from err
    return OtelTraces(endpoint, settings.otel.sample_ratio, settings.name, process)
