"""A caller of the API, and why a request is refused."""

import math
from typing import NamedTuple


class Caller(NamedTuple):
    """Who has sent a request."""

    name: str  # of the key, or the subject of the token
    roles: frozenset[str]
    expires: float = math.inf  # seconds since 1970
    is_subject: bool = False  # whether the name is that of a token's subject, not of a key


class Denied(Exception):
    """Refuse a request; `reason` is one word for the metric."""

    def __init__(self, status: int, reason: str, detail: str, retry_after: int = 0) -> None:
        super().__init__(detail)
        self.status = status
        self.reason = reason
        self.detail = detail
        self.retry_after = retry_after


REASONS = ("no_key", "unknown_key", "expired", "bad_token", "role", "rate", "no_provider")
