"""Give a trainer its candidates: those of its state, new ones of the settings, and after a
promotion the champion of before.
"""

from kaboost.models.evaluation.baselines import ProgressiveValidation, copied
from kaboost.models.evaluation.history import new_history
from kaboost.models.evaluation.paired import paired_losses
from kaboost.service.config.candidates import MODEL
from kaboost.service.config.models import make_model
from kaboost.service.config.settings import Settings
from kaboost.service.learner.candidate import CandidateTrainer
from kaboost.service.learner.candidate_set import CandidateSet
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage.candidate_state import CandidateState
from kaboost.service.storage.state import State


def with_new_candidates(settings: Settings, state: State) -> tuple[State, tuple[str, ...]]:
    """Return the state with a cold model for each configured one that it lacks, and their names.

    Raises
    ------
    ModelError
        For a model that cannot be built.
    """
    known = {state.champion, *(candidate.name for candidate in state.candidates)}
    configured = [MODEL, *settings.candidates]
    new = tuple(name for name in configured if name not in known)
    after = settings.promotion.after
    added = [CandidateState.initial(name, make_model(settings, name), after) for name in new]
    ordered = sorted((*state.candidates, *added), key=lambda one: configured.index(one.name))
    return state._replace(candidates=tuple(ordered)), new


def start_candidates(parts: Parts, trainer: Trainer) -> Trainer:
    """Return the trainer with the candidates of its state."""
    settings, state = parts.settings, trainer.state
    if not state.candidates and state.champion == MODEL:
        return trainer
    candidates = [CandidateTrainer(parts, each, settings.promotion) for each in state.candidates]
    trainer.candidates = CandidateSet(
        state.champion,
        candidates,
        settings.promotion,
        parts.metrics,
        hides_values=bool(settings.privacy.fields),
    )
    trainer.state = state._replace(candidates=())  # the candidates own them from now on
    return trainer


def promoted(settings: Settings, state: State, name: str) -> tuple[State, CandidateState]:
    """Return the state in which a candidate is the champion, and what it was as a candidate.

    Position, ids and keys are shared; all comparisons begin again.
    """
    after = settings.promotion.after
    winner = next(candidate for candidate in state.candidates if candidate.name == name)
    others = [candidate for candidate in state.candidates if candidate.name != name]
    demoted = CandidateState(
        state.champion,
        state.model,
        state.validation,
        _with_losses(state.validation, winner.validation),
        paired_losses(after),
        state.history or new_history(),
    )
    fresh = [
        one._replace(
            champion=_with_losses(one.champion, winner.validation), comparison=paired_losses(after)
        )
        for one in others
    ]
    whole = state._replace(
        model=winner.model,
        validation=winner.validation,
        history=winner.history,
        candidates=(demoted, *fresh),
        champion=name,
    )
    return whole, winner


def _with_losses(
    seen: ProgressiveValidation, champion: ProgressiveValidation
) -> ProgressiveValidation:
    """Return a copy that has seen the same labels, with the losses of the new champion."""
    sums = (
        "loss_sum", "error_sum", "weight_sum", "loss_recent", "error_recent", "recent_weight",
    )  # fmt: skip
    return copied(seen)._replace(**{name: getattr(champion, name).copy() for name in sums})
