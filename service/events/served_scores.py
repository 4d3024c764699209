"""The scores that answers really had, where the features are those of `predictions.topic`."""

import math
from collections.abc import Sequence

import msgspec

from kaboost.models.types import Mat


class _Answer(msgspec.Struct):
    run: str | None = None  # of the learner whose snapshot answered
    epoch: int | None = None  # of that snapshot: another folder has runs of the same names
    score: float | None = None
    scores: list[float] | None = None  # of all classes, where there are several


class ServedScores:
    """Put the scores of answers in the place of those that are made when the answers are read.

    An answer was made by an older snapshot than the model that reads it, and its loss is the one
    that users had. Answers of another model, such as that before a cold start, tell nothing of this
    one: their rows keep the scores that it makes.
    """

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(_Answer).decode

    def replace(self, values: Sequence[bytes | None], scores: Mat, run: str, epoch: int) -> Mat:
        """Return scores with those of the answers that the model of a run and epoch gave.

        Parameters
        ----------
        values
            B records of the topic of predictions.
        scores
            Those of this model, (B, m), or (B, m + 1) where classes may come: of these answers have
            no score.
        run, epoch
            Of this model.
        """
        served = scores.copy()
        for k, value in enumerate(values):
            found = self._scores(value, (run, epoch))
            if len(found) <= scores.shape[1]:
                served[k, : len(found)] = found
        return served

    def _scores(self, value: bytes | None, model: tuple[str, int]) -> Sequence[float]:
        """Return the scores of an answer; none where it has none that can be used."""
        try:
            answer = self._decode(value or b"{}")
        except (msgspec.DecodeError, RecursionError):  # the event is sound: only these keys are not
            return ()
        if (answer.run, answer.epoch) != model:
            return ()
        alone = () if answer.score is None else (answer.score,)
        found = alone if answer.scores is None else answer.scores
        return found if all(map(math.isfinite, found)) else ()
