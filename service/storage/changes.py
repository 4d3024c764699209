"""What a checkpoint takes over of a changed configuration, so that no cold start is needed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kaboost.models.changes import FREE_PARAMETERS, change_bank, declare_features
from kaboost.models.model import Model
from kaboost.models.types import ModelError
from kaboost.service.errors import Incompatible

ALIASES = "aliases"  # key of what is expected: old name to new one, or to None
DROPPED = " (dropped)"  # ends the name of a feature that is not used any more
Description = dict[str, Any]


class Changes(NamedTuple):
    """The stored description with other names, what changes then, and both in words."""

    description: Description  # of the arrays as they are
    bank: Mapping[str, Any]  # new values of parameters
    features: Mapping[str, str]  # new ones with their kinds
    notes: tuple[str, ...]  # setting, old value, new value

    def carry_out(self, path: Path, model: Model) -> None:
        """Change the model that was read from a file, or refuse."""
        try:
            if self.bank:
                change_bank(model, self.bank)
            if self.features:
                declare_features(model, self.features)
        except ModelError as err:
            raise Incompatible(
                f"{path} cannot take the changed configuration over: {'; '.join(self.notes)}: "
                f"{err}. Configure what it was, or begin a new model with --cold-start"
            ) from err

    @property
    def result(self) -> Description:
        """The description after all changes, without dropped features: what is compared."""
        spec = self.description["spec"]
        spec = {**spec, "bank": {**spec["bank"], **self.bank}}
        schema = [pair for pair in self.description["schema"] if not pair[0].endswith(DROPPED)]
        schema += [[name, kind] for name, kind in self.features.items()]
        rest = {key: value for key, value in self.description.items() if key != "ordered"}
        return {**rest, "spec": spec, "schema": schema}


def find_changes(
    path: Path, stored: Description, wanted: Description, aliases: Mapping[str, str | None]
) -> Changes:
    """Return what may change of a stored model; the rest is for others to refuse."""
    notes: list[str] = []
    renamed = _rename(path, stored, aliases, notes)
    bank = _free_parameters(stored["spec"], wanted["spec"])
    before = stored["spec"]["bank"]
    notes += [f"model.bank.{name} from {before[name]} to {bank[name]}" for name in bank]
    known = {name for name, _ in renamed["schema"]}
    fixed = stored.get("declared") is None and wanted.get("declared") is None
    new = {name: kind for name, kind in wanted["schema"] if name not in known} if fixed else {}
    notes += [f"features.schema.{name} from none to {kind}" for name, kind in new.items()]
    return Changes(renamed, bank, new, tuple(notes))


def _free_parameters(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    before, after = stored["bank"], wanted["bank"]
    if before.get("kind") != after.get("kind"):
        return {}
    return {
        name: after[name]
        for name in FREE_PARAMETERS
        if name in before and name in after and before[name] != after[name]
    }


def _rename(
    path: Path, stored: Description, aliases: Mapping[str, str | None], notes: list[str]
) -> Description:
    """Return the description with the new names; nothing for names that are not there."""
    schema = [list(pair) for pair in stored["schema"]]
    known = {name for name, _ in schema}
    for old, new in aliases.items():
        if old not in known:
            continue
        if new is None and stored.get("declared") is not None:
            raise Incompatible(
                f"{path}: features.aliases.{old} drops a feature, which '*': auto would add again: "
                f"list {old} in events.ignore, or declare all features"
            )
        name = old + DROPPED if new is None else new
        if name in known:
            raise Incompatible(
                f"{path}: features.aliases.{old} is {new}, but the model has learned a feature of "
                "that name already: remove the alias, or begin a new model with --cold-start"
            )
        schema = [[name if one == old else one, kind] for one, kind in schema]
        known = {one for one, _ in schema}
        notes.append(f"features.schema.{old} {f'is now {new}' if new else 'is dropped'}")
    return {**stored, "schema": schema}
