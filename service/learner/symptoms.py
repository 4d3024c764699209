"""What is wrong with a stream, as the learner sees it: the facts of the page's headings.

They are judged here, once a second, and not by the processes that serve: all of these show the
same, and what is at a limit does not come and go.
"""

from typing import Any

from kaboost.service.learner.monitor import Monitor
from kaboost.service.learner.progress import Progress
from kaboost.service.learner.rejected_share import RejectedShare
from kaboost.service.learner.trainer import Trainer


class Symptoms:
    """Those of one learner; one thread calls."""

    def __init__(self) -> None:
        self._shares = RejectedShare(), RejectedShare()

    def report(self, trainer: Trainer, progress: Progress, monitor: Monitor) -> dict[str, Any]:
        """Return broken features, labels that do not come, and rejected records."""
        late = trainer.late_figures
        silence = progress.label_silence.describe(late.waiting) if late else None
        found = [
            share.report(recent)
            for share, recent in zip(self._shares, progress.topics, strict=True)
        ]
        rejected = [each for each in found if each]
        worst = max(rejected, key=lambda each: each["share"], default=None)
        return {"features": monitor.broken_features, "labels": silence, "rejected": worst}
