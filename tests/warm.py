"""Compile the default model before the tests, once and for all of them, in two processes.

`python -m tests.warm`: without it, several tests would each compile the same kernels, at once.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.image.kernels import SCHEMA, TASKS, warm
from kaboost.service.config.settings import Settings

APART = ("binary", "regression")  # several classes use the kernels of two


def compile_default(kind: str) -> None:
    """Learn, restore and serve the default model of a task."""
    task = next(task for task in TASKS if task["kind"] == kind)
    with tempfile.TemporaryDirectory() as folder:
        warm(
            Settings.model_validate(
                {
                    "task": task,
                    "features": {"schema": SCHEMA},
                    "snapshots": {"directory": Path(folder) / "snapshots"},
                    "checkpoints": {"directory": Path(folder) / "checkpoints"},
                }
            )
        )


def main() -> int:
    """Compile, one process for each of two cores."""
    program = "from tests.warm import compile_default; compile_default({!r})"
    runs = [subprocess.Popen([sys.executable, "-c", program.format(kind)]) for kind in APART]
    codes = [run.wait() for run in runs]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
