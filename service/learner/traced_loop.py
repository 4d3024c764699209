"""The loop of a learner whose batches and snapshots are traced; without traces it is not there."""

import threading

from confluent_kafka import Message

from kaboost.service.kafka.dead_letters import DeadLetters
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.loop import LearnerLoop
from kaboost.service.learner.parts import Parts
from kaboost.service.learner.trainer import Rejected
from kaboost.service.tracing import Traces


class TracedLoop(LearnerLoop):
    """Learn as the loop does, with a span for each batch and each snapshot."""

    def __init__(
        self,
        parts: Parts,
        inputs: Inputs,
        letters: DeadLetters,
        stop: threading.Event,
        traces: Traces,
    ) -> None:
        super().__init__(parts, inputs, letters, stop)
        self._traces = traces

    def _train(self, messages: list[Message]) -> list[Rejected]:
        with self._traces.learning(messages):
            return super()._train(messages)

    def _publish(self) -> None:
        with self._traces.publishing():
            super()._publish()
