"""The role `kaboost score`: one process that answers the records of a topic until a signal."""

import gc

from kaboost.service.config.settings import Settings
from kaboost.service.processes.roles import collect_garbage_rarely, refuse_river
from kaboost.service.processes.signals import handle_signals
from kaboost.service.score.run import run


def run_score(settings: Settings) -> int:
    """Answer until a signal; the batch that was read is finished."""
    refuse_river(settings, "kaboost score")
    collect_garbage_rarely()
    gc.freeze()
    with handle_signals() as shutdown:
        return shutdown.exit_code(run(settings, stop=shutdown.stop))
