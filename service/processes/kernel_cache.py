"""Find out whether the kernels of a configuration are compiled: a process of its own loads them.

It learns and serves nothing, as a start does, in a temporary folder, and ends at the first kernel
that is not in the cache.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from prometheus_client import CollectorRegistry

from kaboost.models.kernels.compile_progress import NotCompiled, without_compilation
from kaboost.service.config.models import make_model
from kaboost.service.config.settings import Settings
from kaboost.service.errors import Exit
from kaboost.service.http.follower import Follower
from kaboost.service.learner.candidates import start_candidates, with_new_candidates
from kaboost.service.learner.late_trainer import LateTrainer
from kaboost.service.learner.parts import make_parts
from kaboost.service.learner.trainer import Trainer
from kaboost.service.metrics import learner_metrics
from kaboost.service.processes.settings_pipe import receive_settings, send_settings
from kaboost.service.storage.state import LateState, State


def is_compiled(settings: Settings) -> bool:
    """Return whether a start compiles nothing; also false where such a start fails."""
    with send_settings(settings) as descriptor:
        # -P: a folder named kaboost in the working directory is not the package.
        command = [sys.executable, "-P", "-m", "kaboost.service.processes.kernel_cache"]
        done = subprocess.run(
            [*command, str(descriptor)],
            pass_fds=(descriptor,),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    return done.returncode == Exit.DONE


def warm(settings: Settings) -> None:
    """Load or compile what a first start with these settings takes."""
    late = settings.labels.topic is not None
    parts = make_parts(settings, learner_metrics(CollectorRegistry()))
    parts.stores.checkpoints.start_run()
    state = State.initial(make_model(settings), {0: 0})
    if late:
        trainer: Trainer = LateTrainer(
            parts, state._replace(late=LateState({0: 0})), restored=False
        )
    else:
        state, _ = with_new_candidates(settings, state)
        trainer = start_candidates(parts, Trainer(parts, state, restored=False))
    trainer.publish(cold=True)
    trainer.warm()
    trainer.close()
    Follower(settings).refresh()


def in_folder(settings: Settings, folder: Path) -> Settings:
    """Return the settings with all files in one folder."""
    sections = {
        name: getattr(settings, name).model_copy(update={"directory": folder / name})
        for name in ("snapshots", "checkpoints", "labels")
    }
    return settings.model_copy(update=sections)


def main(descriptor: int) -> int:
    """Return whether all kernels are in the cache, as an exit code."""
    settings = receive_settings(descriptor)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with without_compilation():
                warm(in_folder(settings, Path(folder)))
        except NotCompiled:
            return Exit.NOT_HELD
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
