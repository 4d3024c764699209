"""Check the demo's promises against what was observed, the last checkpoint and a reference run."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.models.state.tree import to_arrays
from kaboost.service.demo.dead_letters import DeadLetter
from kaboost.service.storage.checkpoints import Checkpoint

Arrays = Mapping[str, NDArray[np.generic]]
LIMIT_SECONDS = 90.0  # seconds


class Crash(NamedTuple):
    """What was observed around the SIGKILL."""

    killed: int  # process id of the first learner
    restarted: int  # process id of the next one
    learned: int  # events in the newest snapshot at that moment
    durable: int  # events in the newest checkpoint
    answered: int  # predictions while there was no learner


class Poison(NamedTuple):
    """The event that cannot be learned, and the dead letters that were read."""

    value: bytes
    offset: int
    letters: Sequence[DeadLetter]


class Observations(NamedTuple):
    """Everything that was observed during the run."""

    events: int  # valid ones that were sent
    poison: Poison
    crash: Crash
    answered: int
    failures: Sequence[str]
    versions: Sequence[int]
    compiled: float  # seconds by which the start exceeded its budget: a first start compiles


class Check(NamedTuple):
    """One promise in a sentence, whether it held, and the figures behind it."""

    sentence: str
    held: bool
    figures: str


def run_checks(observed: Observations, final: Checkpoint, expected: Arrays) -> list[Check]:
    """Check every promise but the time limit."""
    return [
        exactly_once(observed.events, final),
        better_than_guessing(final),
        killed_and_back(observed.crash),
        never_silent(observed),
        poison_kept(observed.poison),
        same_state(final, expected),
    ]


def exactly_once(events: int, final: Checkpoint) -> Check:
    """Every event is counted once, and the next offset is the one after the last event."""
    learned = int(final.state.model.booster.progress.events)
    offset = max(final.state.offsets.values())
    held = learned == events and offset == events + 1  # the poison event has one too
    figures = f"{learned:,} of {events:,} events, next offset {offset:,}"
    return Check("every event was learned exactly once", held, figures)


def better_than_guessing(final: Checkpoint) -> Check:
    """The progressive loss, taken before each event is learned, is below both baselines."""
    ours, *others = map(float, final.state.validation.mean_loss)
    return Check("progressive log-loss below both baselines", ours < min(others), losses(final))


def losses(final: Checkpoint) -> str:
    """Write the progressive losses: the model's, then those of the baselines."""
    by_predictor = dict(zip(PREDICTORS, map(float, final.state.validation.mean_loss), strict=True))
    ours = by_predictor.pop("model")
    others = (f"{loss:.4f} ({name.replace('_', ' ')})" for name, loss in by_predictor.items())
    return f"{ours:.4f} against {' and '.join(others)}"


def headline(final: Checkpoint) -> str:
    """Report in one line how good the predictions were."""
    events = int(final.state.model.booster.progress.events)
    return (
        f"progressive log-loss {losses(final)}, on {events:,} events, "
        "each predicted before it was learned"
    )


def killed_and_back(crash: Crash) -> Check:
    """Another process continues from the checkpoint and learns again what came after it."""
    held = crash.restarted not in (0, crash.killed)
    figures = (
        f"process {crash.killed} after {crash.learned:,} events, then process {crash.restarted} "
        f"from the checkpoint at {crash.durable:,}"
    )
    return Check("the learner was killed with SIGKILL and came back", held, figures)


def never_silent(observed: Observations) -> Check:
    """Every request was answered, also without a learner, and versions only grew."""
    grew = list(observed.versions) == sorted(set(observed.versions))
    held = not observed.failures and observed.crash.answered > 0 and grew
    figures = (
        f"{observed.answered:,} answered from {len(observed.versions)} versions, "
        f"{observed.crash.answered} without a learner, {len(observed.failures)} failed"
    )
    if observed.failures:
        figures += f" (first: {observed.failures[0]})"
    return Check("predictions flowed all the time", held, figures)


def poison_kept(poison: Poison) -> Check:
    """The event that cannot be learned is in the dead-letter topic, unchanged, with its reason."""
    sentence = "the poison event is a dead letter: its bytes, its reason"
    letter = next((one for one in poison.letters if one.offset == poison.offset), None)
    if letter is None:
        return Check(sentence, False, f"no dead letter for offset {poison.offset}")
    held = letter.value == poison.value and bool(letter.code) and bool(letter.reason)
    return Check(sentence, held, f"{letter.code}: {letter.reason}")


def same_state(final: Checkpoint, expected: Arrays) -> Check:
    """After kill, restart and replay the state equals that of one uninterrupted run."""
    arrays = {**final.state.model.to_arrays(), **to_arrays(final.state.validation, "validation")}
    differing = differences(arrays, expected)
    size = sum(array.nbytes for array in expected.values())
    figures = f"{len(expected)} arrays, {size:,} bytes"
    if differing:
        figures = f"{len(differing)} of {len(expected)} arrays differ: {', '.join(differing[:3])}"
    return Check("the state equals an uninterrupted run, bit for bit", not differing, figures)


def in_time(seconds: float, compiled: float) -> Check:
    """The run stays within its limit; the first compilation is not counted."""
    figures = f"{seconds:.0f} s"
    if compiled > 0.0:
        figures += f", {compiled:.0f} of them not counted: a first start compiles"
    return Check(
        f"done within {LIMIT_SECONDS:.0f} seconds", seconds - compiled < LIMIT_SECONDS, figures
    )


def differences(arrays: Arrays, expected: Arrays) -> list[str]:
    """Name the arrays that differ in type, shape or bytes."""
    return [
        name
        for name in sorted(arrays.keys() | expected.keys())
        if name not in arrays or name not in expected or not same(arrays[name], expected[name])
    ]


def same(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    """Compare bytes: NaN equals NaN, and 0.0 differs from -0.0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
