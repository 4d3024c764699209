"""The checker: what the demo claims, held against what was found, however that came about."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kaboost.models.evaluation.baselines import PREDICTORS
from kaboost.models.state.tree import to_arrays
from kaboost.service.demo.letters import DeadLetter
from kaboost.service.storage.checkpoints import Checkpoint

Arrays = Mapping[str, NDArray[np.generic]]
LIMIT = 90.0  # seconds


class Crash(NamedTuple):
    """What was seen around the SIGKILL."""

    killed: int  # process id of the learner before
    restarted: int  # and after
    learned: int  # events in the newest snapshot at that moment
    durable: int  # events in the newest checkpoint
    answered: int  # predictions while there was no learner


class Poison(NamedTuple):
    """The event that cannot be learned, and the dead letters found."""

    value: bytes
    offset: int
    letters: Sequence[DeadLetter]


class Facts(NamedTuple):
    """Everything that was seen during the run."""

    events: int  # good ones that were sent
    poison: Poison
    crash: Crash
    answered: int
    failures: Sequence[str]
    versions: Sequence[int]
    compiled: float  # seconds of the start beyond what it is allowed, as a first one takes


class Claim(NamedTuple):
    """One sentence, whether it held, and the figures behind it."""

    sentence: str
    held: bool
    figures: str


def check(facts: Facts, final: Checkpoint, uninterrupted: Arrays) -> list[Claim]:
    """Hold every claim against the facts, the last checkpoint and a run that nothing disturbed."""
    return [
        exactly_once(facts.events, final),
        better_than_guessing(final),
        killed_and_back(facts.crash),
        never_silent(facts),
        poison_kept(facts.poison),
        same_state(final, uninterrupted),
    ]


def exactly_once(events: int, final: Checkpoint) -> Claim:
    """Every event counts once, and the position stands behind the last of them."""
    learned = int(final.model.booster.progress.events)
    position = max(final.offsets.values())
    held = learned == events and position == events + 1  # the poison took one
    figures = f"{learned:,} of {events:,} events, next offset {position:,}"
    return Claim("every event was learned exactly once", held, figures)


def better_than_guessing(final: Checkpoint) -> Claim:
    """The progressive loss, taken before each event is learned, is below both baselines."""
    ours, *others = map(float, final.baselines.mean_loss)
    return Claim("progressive log-loss below both baselines", ours < min(others), losses(final))


def losses(final: Checkpoint) -> str:
    """Write the progressive losses: ours, then those of the baselines."""
    found = dict(zip(PREDICTORS, map(float, final.baselines.mean_loss), strict=True))
    ours = found.pop("model")
    others = (f"{loss:.4f} ({name.replace('_', ' ')})" for name, loss in found.items())
    return f"{ours:.4f} against {' and '.join(others)}"


def headline(final: Checkpoint) -> str:
    """Say in one line how well it predicted."""
    events = int(final.model.booster.progress.events)
    return (
        f"progressive log-loss {losses(final)}, on {events:,} events, "
        "each predicted before it was learned"
    )


def killed_and_back(crash: Crash) -> Claim:
    """Another process goes on from the checkpoint; what no checkpoint held it learns again."""
    held = crash.restarted not in (0, crash.killed)
    figures = (
        f"process {crash.killed} after {crash.learned:,} events, then process {crash.restarted} "
        f"from the checkpoint at {crash.durable:,}"
    )
    return Claim("the learner was killed with SIGKILL and came back", held, figures)


def never_silent(facts: Facts) -> Claim:
    """Each request was answered, also without a learner, and versions only grew."""
    grew = list(facts.versions) == sorted(set(facts.versions))
    held = not facts.failures and facts.crash.answered > 0 and grew
    figures = (
        f"{facts.answered:,} answered from {len(facts.versions)} versions, "
        f"{facts.crash.answered} without a learner, {len(facts.failures)} failed"
    )
    if facts.failures:
        figures += f" (first: {facts.failures[0]})"
    return Claim("predictions flowed all the time", held, figures)


def poison_kept(poison: Poison) -> Claim:
    """The event that cannot be learned stands in the dead-letter topic, whole, with its reason."""
    sentence = "the poison event is a dead letter: its bytes, its reason"
    letter = next((each for each in poison.letters if each.offset == poison.offset), None)
    if letter is None:
        return Claim(sentence, False, f"no dead letter for offset {poison.offset}")
    held = letter.value == poison.value and bool(letter.code) and bool(letter.reason)
    return Claim(sentence, held, f"{letter.code}: {letter.reason}")


def same_state(final: Checkpoint, expected: Arrays) -> Claim:
    """Killed, restarted, replayed: still the state of one run from the first event to the last."""
    found = {**final.model.to_arrays(), **to_arrays(final.baselines, "validation")}
    differing = differences(found, expected)
    size = sum(array.nbytes for array in expected.values())
    figures = f"{len(expected)} arrays, {size:,} bytes"
    if differing:
        figures = f"{len(differing)} of {len(expected)} arrays differ: {', '.join(differing[:3])}"
    return Claim("the state equals an uninterrupted run, bit for bit", not differing, figures)


def in_time(seconds: float, compiled: float) -> Claim:
    """It ends by itself while somebody still watches; a slow machine's very first start apart."""
    figures = f"{seconds:.0f} s"
    if compiled > 0.0:
        figures += f", {compiled:.0f} of them not counted: a first start compiles"
    return Claim(f"done within {LIMIT:.0f} seconds", seconds - compiled < LIMIT, figures)


def differences(found: Arrays, expected: Arrays) -> list[str]:
    """Name the arrays that are not the same bytes of the same type and shape."""
    return [
        name
        for name in sorted(found.keys() | expected.keys())
        if name not in found or name not in expected or not same(found[name], expected[name])
    ]


def same(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    """Compare as bytes: NaN equals NaN here, and 0.0 is not -0.0."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
