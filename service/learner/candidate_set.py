"""The candidates of one trainer: they learn what it has learned, and none of them can stop it."""

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from confluent_kafka import Message

from kaboost.models.evaluation.outcome import Outcome
from kaboost.models.evaluation.paired import EVENTS, estimate, is_better
from kaboost.service.config.candidates import Promotion
from kaboost.service.errors import Refused
from kaboost.service.events.decoder import Decoded
from kaboost.service.metrics import LearnerMetrics
from kaboost.service.storage.candidate_state import CANDIDATES, CHAMPION, MODEL, CandidateState
from kaboost.service.storage.state import State

COLD, COMPARED, BETTER, FAILED = "cold", "compared", "better", "failed"
REMEDY = "it begins again, cold, at the next start of the learner; remove it, or report the error"

log = logging.getLogger(__name__)


class Batch(NamedTuple):
    """Events that the champion has learned."""

    records: Sequence[Message]  # of which they were decoded
    decoded: Decoded
    outcome: Outcome  # what the champion predicted for them
    learned: int  # events that the champion has learned before


class Candidate(Protocol):
    """A model that learns next to the champion."""

    name: str

    def prepare(self, messages: Sequence[Message]) -> None:
        """Fetch what decoding some records takes; raise RegistryAway if it is not there now."""

    def learn_next(self, batch: Batch) -> None:
        """Learn the same events, and compare the losses."""

    def warm(self) -> None:
        """Compile what learning takes."""

    @property
    def candidate_state(self) -> CandidateState:
        """The state for the checkpoint."""


class CandidateSet:
    """The candidates next to one champion; one thread calls.

    Parameters
    ----------
    champion
        The name of the model that is served.
    candidates
        Those that learn; one that raises an exception learns no more.
    promotion
        When one is better.
    metrics
        Show losses and failures; None where there are no candidates.
    hides_values
        Whether messages of exceptions, which may quote values, are kept out of the log.
    """

    def __init__(
        self,
        champion: str = MODEL,
        candidates: Iterable[Candidate] = (),
        promotion: Promotion = Promotion(),  # noqa: B008 # immutable
        metrics: LearnerMetrics | None = None,
        *,
        hides_values: bool = False,
    ) -> None:
        self.champion = champion
        self._running = list(candidates)
        self._promotion = promotion
        self._metrics = metrics
        self._hides_values = hides_values
        self._failed: dict[str, str] = {}  # why, by name
        self.show()

    def show(self) -> None:
        """Set the metrics to these candidates, and remove those of others."""
        if self._metrics is None:
            return
        for gauge in (self._metrics.candidate_loss, self._metrics.candidate_improvement):
            gauge.clear()
        for candidate in self._running:
            self._metrics.candidate_failures.labels(candidate.name)
            self._show(candidate)

    def __bool__(self) -> bool:
        """Whether there is anything to show."""
        return bool(self._running or self._failed or self.champion != MODEL)

    def prepare(self, messages: Sequence[Message]) -> None:
        """Fetch what decoding some records takes; raise RegistryAway if it is not there now."""
        for candidate in self._running:
            candidate.prepare(messages)

    def learn(
        self, records: Sequence[Message], decoded: Decoded, outcome: Outcome, learned: int
    ) -> None:
        """Let every candidate learn what the champion has learned after `learned` events."""
        if self._running and decoded.meta:
            batch = Batch(records, decoded, outcome, learned)
            for candidate in list(self._running):
                self._guarded(candidate, lambda one: one.learn_next(batch))
                if candidate in self._running:
                    self._show(candidate)

    def warm(self) -> None:
        """Compile what the candidates take to learn."""
        for candidate in list(self._running):
            self._guarded(candidate, lambda one: one.warm())

    def stored(self, state: State) -> State:
        """Return the champion's state with those of the candidates as they are now."""
        if not self:
            return state
        states = tuple(candidate.candidate_state for candidate in self._running)
        return state._replace(candidates=states, champion=self.champion)

    def header(self) -> dict[str, Any]:
        """Return what a snapshot has of them; nothing where there never were any."""
        return {CHAMPION: self.champion, CANDIDATES: self.report()} if self else {}

    def report(self) -> list[dict[str, Any]]:
        """Describe every candidate: its state in a word, its losses, and the comparison."""
        running = [self._describe(candidate.candidate_state) for candidate in self._running]
        empty = dict.fromkeys(FIGURES, None)
        failed = [
            {**empty, "name": name, "state": FAILED, "reason": reason, "events_learned": 0,
             "compared_events": 0}
            for name, reason in self._failed.items()
        ]  # fmt: skip
        return running + failed

    @property
    def winner(self) -> str | None:
        """The candidate that was better at its last look; of several the most improved one."""
        states = [candidate.candidate_state for candidate in self._running]
        better = [state for state in states if is_better(state.comparison)]
        return max(better, key=_decided_improvement).name if better else None

    def require(self, name: object) -> str:
        """Return the name of a candidate that can be promoted, or refuse."""
        names = [candidate.name for candidate in self._running]
        if name in names:
            return str(name)
        running = ", ".join(names) or "none; configure candidates"
        if name == self.champion:
            raise Refused(f"{name} is the champion already; candidates: {running}")
        if isinstance(name, str) and name in self._failed:
            raise Refused(f"{name} has failed: {self._failed[name]}. {REMEDY}")
        raise Refused(f"{name!r} is no candidate; candidates: {running}")

    def describe(self, name: str) -> str:
        """Return why a candidate is better, or not, in words: the figures of the decision, where it
        was better, else those of now.
        """
        running = (candidate.candidate_state for candidate in self._running)
        state = next(each for each in running if each.name == name)
        found = state.verdict or estimate(state.comparison, self._promotion.confidence)
        if found is None:
            return f"loss {_shown(_finite(state.validation.mean_loss[0]))}, not compared yet"
        return (
            f"its loss is lower by {100 * found.improvement:.2f} % "
            f"({100 * found.low:.2f} to {100 * found.high:.2f} % at "
            f"confidence {self._promotion.confidence:g}) over {found.events:,} events"
        )

    def _guarded(self, candidate: Candidate, work: Callable[[Candidate], None]) -> None:
        """Do some work of a candidate; after an exception it learns no more."""
        try:
            work(candidate)
        except Exception as err:  # boundary: no candidate may stop the champion
            self._running.remove(candidate)
            reason = type(err).__name__ if self._hides_values else f"{type(err).__name__}: {err}"
            self._failed[candidate.name] = f"{type(err).__name__}, see the log"  # no values
            fields = {"candidate": candidate.name, "reason": reason, "remedy": REMEDY}
            trace = None if self._hides_values else err
            log.error("a candidate has failed, it learns no more", extra=fields, exc_info=trace)
            if self._metrics is not None:
                self._metrics.candidate_failures.labels(candidate.name).inc()
                for gauge in (self._metrics.candidate_loss, self._metrics.candidate_improvement):
                    gauge.remove(candidate.name)

    def _show(self, candidate: Candidate) -> None:
        if self._metrics is not None:
            state = candidate.candidate_state
            loss, improvement = float(state.validation.window_loss[0]), self._improvement(state)
            self._metrics.candidate_loss.labels(candidate.name).set(loss)
            self._metrics.candidate_improvement.labels(candidate.name).set(improvement)

    def _improvement(self, state: CandidateState) -> float:
        found = estimate(state.comparison, self._promotion.confidence)
        return math.nan if found is None else found.improvement

    def _describe(self, state: CandidateState) -> dict[str, Any]:
        found = estimate(state.comparison, self._promotion.confidence)
        seen, events = state.validation, state.events_learned
        word = BETTER if is_better(state.comparison) else COMPARED
        if word == COMPARED and not int(state.comparison.counts[EVENTS]) and events:
            word = COLD if events < self._promotion.after else COMPARED
        word = word if events else COLD
        losses = {
            "loss": seen.mean_loss, "recent_loss": seen.window_loss,
            "champion_recent_loss": state.champion.window_loss,
        }  # fmt: skip
        return {
            "name": state.name,
            "state": word,
            "reason": "",
            "events_learned": events,
            **{name: _finite(values[0]) for name, values in losses.items()},
            "compared_events": found.events if found else 0,
            "improvement": _finite(found.improvement) if found else None,
            "improvement_low": _finite(found.low) if found else None,
            "improvement_high": _finite(found.high) if found else None,
        }


FIGURES = (
    "loss", "recent_loss", "champion_recent_loss", "improvement", "improvement_low",
    "improvement_high",
)  # fmt: skip


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _decided_improvement(state: CandidateState) -> float:
    return state.verdict.improvement if state.verdict else -math.inf


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4g}"
