"""The random weights that nets start from, U(+-1/sqrt(fan in)) (specification, 7.3)."""

from __future__ import annotations

import math

import numpy as np

from kaboost.models.kernels.jit import kernel
from kaboost.models.kernels.random import State, uniform, uniforms
from kaboost.models.kernels.simd import aligned
from kaboost.models.types import Mat3


def draw_layers(seed: int, N: int, sizes: tuple[tuple[int, int], ...]) -> list[Mat3]:
    """Return the weights (units, inputs + 1, N) of every layer of `sizes` (units, inputs).

    One generator draws a layer after the other: weights of all learners, then their biases.
    """
    layers, skip = [], 0
    for units, inputs in sizes:
        bound = 1.0 / math.sqrt(inputs)
        count = N * units * inputs
        weights = uniforms(seed, count, skip).reshape(N, units, inputs)
        biases = uniforms(seed, N * units, skip + count).reshape(N, units, 1)
        skip += count + N * units
        both = np.concatenate([weights, biases], axis=2)
        layers.append(aligned(((2.0 * both - 1.0) * bound).transpose(1, 2, 0)))
    return layers


@kernel
def draw_layer(A: Mat3, i: int, state: State) -> None:
    """Draw one layer of learner i again: weights, then biases."""
    units, rows, _ = A.shape
    bound = 1.0 / math.sqrt(rows - 1)
    for k in range(units):
        for j in range(rows - 1):
            A[k, j, i] = (2.0 * uniform(state) - 1.0) * bound
    for k in range(units):
        A[k, rows - 1, i] = (2.0 * uniform(state) - 1.0) * bound
