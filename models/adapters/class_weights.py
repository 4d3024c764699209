"""Weights of classes: given by class, or balanced as labels come."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from kaboost.models.types import Ints, ModelError, Vec

ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


class ClassWeights:
    """The factors of classes on the weights of their events.

    Parameters
    ----------
    weight
        Class to factor, 1 for those that it leaves out; `balanced`: the events so far over the
        number of their classes times the events of the class so far; None for 1.

    Raises
    ------
    ModelError
        For anything else, and a factor that is negative or not finite.

    Examples
    --------
    >>> weights = ClassWeights("balanced")
    >>> weights.learn(["a", "b"], np.array([0, 0, 0, 1])).tolist()
    [1.0, 1.0, 1.0, 2.0]
    """

    def __init__(self, weight: ClassWeight) -> None:
        if not (weight is None or weight == "balanced" or isinstance(weight, Mapping)):
            raise ModelError(
                f"class_weight: {weight!r} is neither 'balanced' nor a dict; map classes to factors"
            )
        self._weight = weight
        self._counts: Vec = np.zeros(0)  # events by class so far
        for label, factor in weight.items() if isinstance(weight, Mapping) else ():
            real = isinstance(factor, int | float | np.number)
            if not real or not 0.0 <= float(factor) < math.inf:
                raise ModelError(
                    f"class_weight: {factor!r} of {label!r} is no factor; give a number >= 0"
                )

    def learn(self, classes: Any, codes: Ints) -> Vec:
        """Count events (B,) by their index of the classes, and return their factors (B,).

        The factor of an event depends on the events before it, and on itself.
        """
        if self._weight is None:
            return np.ones(len(codes))
        if isinstance(self._weight, Mapping):
            factors = np.array([self._weight.get(label, 1.0) for label in classes], np.float64)
            chosen: Vec = factors[codes]
            return chosen
        C = len(classes)
        before = np.zeros(C)
        before[: len(self._counts)] = self._counts
        counts = before + np.cumsum(codes[:, None] == np.arange(C), axis=0)
        if len(counts):
            self._counts = counts[-1]
        present = np.maximum((counts > 0.0).sum(axis=1), 1)
        balanced: Vec = counts.sum(axis=1) / (present * counts[np.arange(len(codes)), codes])
        return balanced
