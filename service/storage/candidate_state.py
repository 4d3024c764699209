"""The state of a candidate: a model that learns next to the one that is served, and its losses."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import NDArray

from kaboost.models.evaluation.baselines import ProgressiveValidation, progressive_validation
from kaboost.models.evaluation.history import History, new_history
from kaboost.models.evaluation.paired import AFTER, PairedLosses, paired_losses
from kaboost.models.model import Model
from kaboost.models.state.format import Arrays
from kaboost.models.state.tree import from_arrays, to_arrays
from kaboost.models.types import ModelError
from kaboost.service.errors import Incompatible
from kaboost.service.storage.changes import ALIASES, find_changes
from kaboost.service.storage.comparison import require_equal

MODEL = "model"  # the name of what the section `model` describes; key of its description
CANDIDATES, CHAMPION = "candidates", "champion"  # keys of a header, and of what is expected
Expected = Mapping[str, Any]


class CandidateState(NamedTuple):
    """A candidate's model, its progressive validation, and the comparison with the champion."""

    name: str
    model: Model
    validation: ProgressiveValidation
    champion: ProgressiveValidation  # the champion's on the same events
    comparison: PairedLosses  # of the champion and the candidate
    history: History
    new_names: Mapping[str, Any] = {}  # of features: how many came, and those on trial

    @classmethod
    def initial(cls, name: str, model: Model, after: int) -> "CandidateState":
        """Return the state of a candidate that has learned nothing."""
        seen, champion = (progressive_validation(model.labels) for _ in range(2))
        return cls(name, model, seen, champion, paired_losses(after), new_history())

    @property
    def events_learned(self) -> int:
        """How many events the candidate has learned."""
        return int(self.model.booster.progress.events)

    def describe(self) -> dict[str, Any]:
        """Return what is no array, as JSON values."""
        after = int(self.comparison.counts[AFTER])
        model, names = self.model.describe(), dict(self.new_names)
        return {"name": self.name, "model": model, "after": after, "new_names": names}

    def to_arrays(self) -> Arrays:
        """Return every array by its name."""
        arrays = {
            **self.model.to_arrays(),
            **to_arrays(self.validation, "validation"),
            **to_arrays(self.champion, "champion"),
            **to_arrays(self.comparison, "comparison"),
            **self.history.to_arrays(),
        }
        return {f"{CANDIDATES}.{self.name}.{name}": array for name, array in arrays.items()}


class Restored(NamedTuple):
    """The candidates that learn on, and what became of the others, in words."""

    states: tuple[CandidateState, ...]
    notes: tuple[str, ...] = ()


def expect_champion(header: Mapping[str, Any], expected: Expected) -> tuple[str, dict[str, Any]]:
    """Return the champion's name, and what its checkpoint is expected to have.

    A candidate that was promoted has the settings of its name. Where no candidate has that name any
    more, its settings are expected to be those of the section `model`.
    """
    rest = {key: value for key, value in expected.items() if key != CANDIDATES}
    stored = header.get(CHAMPION, MODEL)
    if CANDIDATES not in expected:
        return stored, rest
    wanted = expected[CANDIDATES]
    if stored in wanted:
        return stored, {**rest, MODEL: wanted[stored]}
    return MODEL, rest


def read_candidates(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    champion: str,
    expected: Expected,
) -> Restored:
    """Return the candidates of a checkpoint that fit what is expected, or all of them.

    Budget, effort and memory of reboosted trees and more features are taken over, as by the
    champion; any other change of its settings begins a candidate again, and is no fault.
    """
    described: Sequence[Mapping[str, Any]] = header.get(CANDIDATES, ())
    states: list[CandidateState] = []
    notes: list[str] = []
    wanted = None
    if CANDIDATES in expected:
        wanted = {MODEL: expected[MODEL], **expected[CANDIDATES]}
        notes += [f"candidates.{name} is removed" for name in _removed(described, wanted, champion)]
    for each in described:
        name = each["name"]
        if wanted is not None and (name == champion or name not in wanted):
            continue
        try:
            own = {n.removeprefix(f"{CANDIDATES}.{name}."): a for n, a in arrays.items()
                   if n.startswith(f"{CANDIDATES}.{name}.")}  # fmt: skip
            state, changes = _read(path, each, own, wanted, expected)
        except (Incompatible, ModelError) as err:
            notes.append(f"candidates.{name} begins again: {err}")
        else:
            states.append(state)
            notes += [f"candidates.{name}: {note}" for note in changes]
    return Restored(tuple(states), tuple(notes))


def _removed(
    described: Sequence[Mapping[str, Any]], wanted: Mapping[str, Any], champion: str
) -> Iterator[str]:
    names = [each["name"] for each in described]
    return (name for name in names if name not in wanted or name == champion)


def _read(
    path: Path,
    described: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    wanted: Mapping[str, Any] | None,
    expected: Expected,
) -> tuple[CandidateState, Sequence[str]]:
    """Return one candidate with the changes that it takes over, or raise why it cannot learn on."""
    name, stored = described["name"], described["model"]
    changes = None
    if wanted is not None:
        changes = find_changes(path, stored, wanted[name], expected.get(ALIASES, {}))
        require_equal(path, {MODEL: changes.result}, {MODEL: wanted[name]})
    model = Model.from_arrays(changes.description if changes else stored, arrays)
    if model.serving_only:
        raise ModelError("it lacks arrays that learning needs")
    if changes:
        changes.carry_out(path, model)
    seen, champion = (
        from_arrays(progressive_validation(model.labels), arrays, part)
        for part in ("validation", "champion")
    )
    comparison = from_arrays(paired_losses(described["after"]), arrays, "comparison")
    history, names = History.from_arrays(arrays), described["new_names"]
    state = CandidateState(name, model, seen, champion, comparison, history, names)
    return state, changes.notes if changes else ()
