"""The examples in docstrings give what they show."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

import kaboost.models
import kaboost.service

MODULES = [
    module.name
    for package in (kaboost.models, kaboost.service)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    """Every example of a module holds."""
    with np.errstate(over="ignore"):  # plain Python warns where compiled hashes wrap round
        failed, _ = doctest.testmod(importlib.import_module(name))

    assert 0 == failed
