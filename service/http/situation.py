"""What is known of a service when its heading is chosen."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kaboost.service.http.follower import LearnerStatus
from kaboost.service.http.loss_rise import LossRise
from kaboost.service.storage.snapshots import Condition

SILENT_SECONDS = 5.0  # without a heartbeat, of which there is one a second
LOADING_SECONDS = 60.0  # until the first one of a process: its supervisor waits 30 s
SHOWN_FEATURES = 3  # in words


class Situation(NamedTuple):
    """The facts; those of the learner are as it has reported them last."""

    learner: LearnerStatus
    state: str  # of the learner, as it is reported
    reason: str = ""  # why no newer model is served
    learns_nothing: bool = False
    version: int | None = None  # of the served snapshot
    stale: bool = False
    fallback: bool = False
    events_learned: int = 0
    events_per_second: float = 0.0
    dead_letters: str = ""  # their topic
    symptoms: Mapping[str, Any] = {}  # as of `service.learner.symptoms`
    rise: LossRise | None = None  # of the recent loss
    figures_pid: int | None = None  # of the learner whose figures these are

    @property
    def condition(self) -> Condition:
        """What the learner reports next to its heartbeat."""
        return self.learner.condition

    @property
    def is_served(self) -> bool:
        """Whether there is a model that answers."""
        return self.version is not None

    @property
    def is_silent(self) -> bool:
        """Whether a learner that should run has given no heartbeat for some seconds."""
        return self.silent_seconds > (LOADING_SECONDS if self._is_new else SILENT_SECONDS)

    @property
    def is_loading(self) -> bool:
        """Whether a process was started that has not begun to learn, and need not have."""
        return (self._is_new or self._has_old_figures) and not self.is_silent

    @property
    def silent_seconds(self) -> float:
        """Seconds without a heartbeat of the process that should run; 0 where it never had one."""
        return self.learner.state_age if self._is_new else self.learner.age or 0.0

    @property
    def _is_new(self) -> bool:
        return self.learner.state == "running" and self.learner.is_another

    @property
    def _has_old_figures(self) -> bool:
        """Whether the figures are those of an earlier process: the first come with learning."""
        is_known = None not in (self.figures_pid, self.learner.pid)
        return self.state == "running" and is_known and self.figures_pid != self.learner.pid

    @property
    def answers(self) -> str:
        """What goes on working while nothing is learned."""
        if self.version is None:
            return "no prediction is answered: there is no snapshot yet"
        return (
            f"predictions are answered from snapshot {self.version:,} as before, "
            f"with what was learned from {self.events_learned:,} events"
        )

    @property
    def broken_features(self) -> Sequence[str]:
        """What has happened to features, one sentence each, of many only the first ones."""
        texts = [each["text"] for each in self.symptoms.get("features", ())]
        more = len(texts) - SHOWN_FEATURES
        return texts[:SHOWN_FEATURES] + ([f"and {more} more"] if more > 0 else [])
