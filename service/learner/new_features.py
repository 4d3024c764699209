"""Add new features: as memory allows, and in the columns of those that no longer matter."""

import logging

from kaboost.models.eviction import evict_features
from kaboost.models.model import Model
from kaboost.service.events.decoder import Decoder
from kaboost.service.events.new_names import NewNames

REMEDY = "declare what matters, or start again with more model.bank.max_memory"

log = logging.getLogger(__name__)


class NewFeatures:
    """Add new features to a model and its decoder; one thread calls."""

    def __init__(self) -> None:
        self._logged_hour = -1  # in which it was full

    def add(
        self, parts: tuple[Model, Decoder, NewNames], kinds: dict[str, str], *, may_evict: bool
    ) -> tuple[dict[str, str], int]:
        """Add the new features that fit; return them, and how many others have made way.

        Where neither memory nor an unused column is left, new names are on trial until the next
        hour.
        """
        model, decoder, names = parts
        added = model.affordable_features(kinds)
        if added:
            model.add_features(added)
            decoder.add_features(added)
        rest = {name: kind for name, kind in kinds.items() if name not in added}
        evicted: dict[str, str] = {}
        if rest and may_evict:
            evicted = evict_features(model, rest, names.without_values(model.first_values()))
        if evicted:
            decoder.follow(model.encoder.schema)
            fields = {"evicted": list(evicted.values()), "added": list(evicted)}
            log.warning("features that no longer matter make way for new ones", extra=fields)
        if len(evicted) < len(rest):
            names.refuse()
            self._log_full(model, names, next(name for name in rest if name not in evicted))
        return {n: kind for n, kind in kinds.items() if n in added or n in evicted}, len(evicted)

    def _log_full(self, model: Model, names: NewNames, first: str) -> None:
        """Log once an hour of the records that there is no room."""
        if self._logged_hour != names.hour:
            bound = model.spec["bank"]["max_memory"]
            fields = {"known": len(model.encoder.kinds), "max_memory": bound, "remedy": REMEDY}
            log.warning(
                "no room for more features, they are ignored", extra={"first": first, **fields}
            )
        self._logged_hour = names.hour
