"""The package `kaboost`: its public names, and an import that loads nothing else."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import kaboost

SOURCE = Path(__file__).parents[1] / "kaboost" / "__init__.py"


def test_import_loads_no_compiler() -> None:
    """`import kaboost` and its version need neither NumPy nor Numba nor a module of the models."""
    code = (
        "import sys, kaboost; kaboost.__version__, dir(kaboost); "
        "print([name for name in sys.modules if name.split('.')[0] in ('numba', 'numpy') "
        "or name.startswith('kaboost.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]" == done.stdout.strip()


def test_public_names_are_there() -> None:
    """`dir` lists them and the version; every one can be loaded, and type checkers know it."""
    block = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    typed = {alias.name for line in block.body for alias in line.names}

    assert sorted([*kaboost.__all__, "__version__"]) == dir(kaboost)
    assert set(kaboost.__all__) == typed == set(kaboost._MODULE_OF)
    assert all(getattr(kaboost, name) is not None for name in kaboost.__all__)
    assert version("kaboost") == kaboost.__version__
