"""The roles of parameters of a loop's body, and the plan that its annotations define."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

Row = Any  # row j of a table (rows, N); the first table has no more rows than the others
NewRow = Any  # the same, replaced by what the body returns
Lane = Any  # a vector (N,)
NewLane = Any  # the same, replaced by what the body returns
Column = Any  # number j of a vector, 1 beyond its end (the bias); rows where it is 0 are left out;
# one at most, and no vector is shorter
Dense = Any  # the same, but its zeros count; the first is the shortest
Number = Any  # one number for all learners and rows
Sum = Any  # a running total (N,), 0 before the first row, then what the body returned
ROLES = ("Row", "NewRow", "Lane", "NewLane", "Column", "Dense", "Number", "Sum")


class Plan(NamedTuple):
    """The body of a loop and the roles of its parameters, in order."""

    body: Callable[..., Any]
    roles: tuple[str, ...]

    @classmethod
    def of(cls, body: Callable[..., Any]) -> Plan:
        """Read the roles from the body's annotations."""
        roles = tuple(str(p.annotation) for p in inspect.signature(body).parameters.values())
        if not set(roles) <= set(ROLES):
            raise TypeError(f"{body.__name__}: {roles} are not all of {', '.join(ROLES)}")
        vectors = [role for role in roles if role in ("Column", "Dense")]
        if "Column" in vectors[1:]:
            raise TypeError(f"{body.__name__}: {roles}; one Column at most, before any Dense")
        return cls(body, roles)

    @property
    def sums(self) -> bool:
        """Whether there is a total; it goes to one more argument (N,), the last."""
        return "Sum" in self.roles

    def pick(self, arguments: Sequence[Any], *roles: str) -> list[Any]:
        """Return the arguments of some roles, in their order; a total is no argument."""
        declared = (role for role in self.roles if role != "Sum")
        pairs = zip(declared, arguments, strict=False)
        return [argument for role, argument in pairs if role in roles]

    def apply(self, values: dict[str, list[Any]]) -> Any:
        """Run the body with the values of each role in order."""
        queues = {role: iter(numbers) for role, numbers in values.items()}
        return self.body(*(next(queues[role]) for role in self.roles))

    def pairs(self, old: Sequence[Any], made: Any) -> Iterator[tuple[Any, Any]]:
        """Pair what is to be replaced with what the body returned."""
        return zip(old, made if len(old) > 1 else [made], strict=True)
