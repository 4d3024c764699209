"""Replace the model that learns and is served: by that of a checkpoint, or by a candidate."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from kaboost.service.errors import NotWritten, Refused
from kaboost.service.learner.annotations import PROMOTION, ROLLBACK
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.rollback import describe
from kaboost.service.learner.startup import Startup
from kaboost.service.learner.steering import Action, Details, Steering, rollback_arguments
from kaboost.service.learner.trainer import Trainer
from kaboost.service.storage import commands
from kaboost.service.storage.commands import Command

RETRY_SECONDS = 60.0  # after a promotion that could not be
AUTOMATIC = "promotion.automatic"

Make = Callable[[Trainer, Inputs], Trainer]

log = logging.getLogger(__name__)


class Learner(Protocol):
    """What the loop does for a replacement."""

    trainer: Trainer
    startup: Startup

    def replace(self, make: Make, kind: str, text: str) -> tuple[int, str]:
        """Go on with another trainer. Return the number of the checkpoint of the one before, and
        what is missing of the new one's.
        """


class Replacement:
    """Carry out rollbacks and promotions; one thread calls."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._retry_at = 0.0

    @property
    def actions(self) -> dict[str, Action]:
        """What carries out the commands."""
        return {commands.ROLLBACK: self._roll_back, commands.PROMOTE: self._promote_by_command}

    def _roll_back(self, command: Command) -> Details:
        """Go on with the model of a checkpoint."""
        wanted, positions = rollback_arguments(command)

        def make(before: Trainer, inputs: Inputs) -> Trainer:
            return self._learner.startup.roll_back(wanted, positions, before, inputs)

        kept, missing = self._learner.replace(make, ROLLBACK, f"to checkpoint {wanted}")
        message = f"the model is that of checkpoint {wanted}; kaboost rollback {kept} undoes it"
        return {"message": message + missing, "before": kept, **describe(self._learner.trainer)}

    def _promote_by_command(self, command: Command) -> Details:
        """Serve a candidate from now on; the champion of before is a candidate then."""
        name = command.arguments.get("candidate")
        return self._promote(self._learner.trainer.candidates.require(name))

    def promote_winner(self, steering: Steering) -> None:
        """Promote the candidate that has proved to be better; not while learning is paused."""
        if steering.paused:
            return
        winner = self._learner.trainer.candidates.winner
        if winner is None or time.monotonic() < self._retry_at:
            return
        reason = self._learner.trainer.candidates.describe(winner)
        fields = {"candidate": winner, "reason": reason}
        try:
            details = self._promote(winner)
        except (NotWritten, Refused) as err:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            log.error("promotion failed, it is tried again", extra={**fields, "error": str(err)})
            return
        log.warning("a candidate is promoted", extra={**fields, "outcome": details["message"]})
        steering.note("promote", AUTOMATIC, reason, {"candidate": winner, **details})

    def _promote(self, name: str) -> dict[str, Any]:
        before = self._learner.trainer.candidates.champion
        text = f"{name} instead of {before}: {self._learner.trainer.candidates.describe(name)}"
        make = partial(self._learner.startup.promote, name)
        kept, missing = self._learner.replace(make, PROMOTION, text)
        message = (
            f"{name} is served now; kaboost promote {before} undoes it, kaboost rollback {kept} "
            "goes back to the state before"
        )
        more: Mapping[str, Any] = {"champion": name, "champion_before": before, "before": kept}
        return {"message": message + missing, **more, **describe(self._learner.trainer)}
