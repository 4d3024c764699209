"""Roles, and the one table of which route needs which; a route without a line is refused."""

import re
from collections.abc import Iterable
from re import Pattern
from typing import NamedTuple, Protocol

PREDICT, LEARN, READ, ADMIN = "predict", "learn", "read", "admin"
ROLES = (PREDICT, LEARN, READ, ADMIN)
OPEN = ""  # no key is needed
CONTROL = re.compile(r"[\x00-\x1f\x7f]")

# By path, as the routes spell it. What is open shows nothing of the model or of its data.
ROUTES = {
    "/": OPEN,
    "/docs": OPEN,
    "/healthz": OPEN,  # probes have no key
    "/health": OPEN,
    "/healthz/live": OPEN,
    "/healthz/ready": OPEN,
    "/v2": OPEN,
    "/v2/health/live": OPEN,
    "/v2/health/ready": OPEN,
    "/predict": PREDICT,
    "/events": LEARN,
    "/labels": LEARN,
    "/model": READ,
    "/model/importance": READ,
    "/model/history": READ,
    "/model/records": READ,
    "/status": READ,
    "/stream": READ,
    "/metrics": READ,
    "/openapi.json": READ,  # it has the names of the features
}
PREFIXES = {
    "/web/": OPEN,  # the files of the pages
    "/admin/": ADMIN,
    "/v2/models/": PREDICT,  # also what describes the inputs: clients ask for it first
}


class Routed(Protocol):
    """A route of the framework."""

    @property
    def path(self) -> str: ...
    @property
    def path_regex(self) -> Pattern[str]: ...


class RouteRoles(NamedTuple):
    """The roles of one application's routes."""

    fixed: dict[str, str]
    patterns: list[tuple[Pattern[str], str, str]]  # with the role, and the route as it is spelled

    def role_of(self, path: str) -> str | None:
        """Return the role that a path needs; None if there is no such path.

        A route's pattern ends in `$`, which matches before a final newline as well: paths with
        control characters are none.
        """
        if CONTROL.search(path):
            return None
        role = self.fixed.get(path)
        if role is not None:
            return role
        return next((role for pattern, role, _ in self.patterns if pattern.match(path)), None)

    def route_of(self, path: str) -> str:
        """Return the route of a path, without the values in it; empty if there is none."""
        if path in self.fixed:
            return path
        return next((name for pattern, _, name in self.patterns if pattern.fullmatch(path)), "")


def role_of_route(path: str) -> str:
    """Return the role of a route, by the path as the route spells it; KeyError if it has none."""
    if path in ROUTES:
        return ROUTES[path]
    return next(role for start, role in PREFIXES.items() if path.startswith(start))


def route_roles(routes: Iterable[Routed]) -> RouteRoles:
    """Choose the lines of an application's routes; one without a line is a bug."""
    fixed, patterns = {}, []
    for route in routes:
        try:
            role = role_of_route(route.path)
        except StopIteration:
            raise AssertionError(f"{route.path} has no line in service/access/roles.py") from None
        if "{" in route.path:
            patterns.append((route.path_regex, role, route.path))
        else:
            fixed[route.path] = role
    return RouteRoles(fixed, patterns)
