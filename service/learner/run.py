"""Run one learner: build its parts, let it learn, and release them."""

import logging
import threading
from contextlib import ExitStack, closing
from typing import NamedTuple

from confluent_kafka import KafkaException
from prometheus_client import CollectorRegistry

from kaboost.service.config.settings import Settings
from kaboost.service.errors import BrokerError, Exit, Gap
from kaboost.service.kafka.dead_letters import DeadLetters
from kaboost.service.learner.inputs import Inputs
from kaboost.service.learner.loop import LearnerLoop
from kaboost.service.learner.parts import Parts, make_parts
from kaboost.service.learner.snapshot_sender import sending
from kaboost.service.learner.startup import (
    RestoreFromCheckpoint,
    Startup,
    StartupFactory,
    require_cold_start,
)
from kaboost.service.learner.takeover import Report, lock_folders, no_report
from kaboost.service.learner.traced_loop import TracedLoop
from kaboost.service.metrics import learner_metrics
from kaboost.service.metrics_server import metrics_server
from kaboost.service.tracing import make_traces

log = logging.getLogger(__name__)


def run(
    settings: Settings,
    *,
    cold_start: bool,
    stop: threading.Event,
    restarts: int = 0,
    startup: StartupFactory = RestoreFromCheckpoint,
    report: Report = no_report,
) -> int:
    """Learn until asked to stop.

    1. Lock the stores, so that no second learner writes to them; wait for one that does.
    2. Record a cold start, so that it survives a failure of this attempt.
    3. Restore the newest checkpoint; wait for the topic; find the offsets.
    4. Publish the current state, and compile; requests are served meanwhile.
    5. Read, learn, publish, checkpoint.
       With `kafka.on_gap: accept` a gap that comes up leads back to 3, where it is accepted.
    6. When asked to stop, read no more, and write a last checkpoint and snapshot; after an error as
       well, unless it is one of learning itself, which leaves half a batch in the state.
    """
    registry = CollectorRegistry()
    metrics = learner_metrics(registry)
    metrics.restarts.inc(restarts)
    kafka = settings.kafka
    cold_start = cold_start and restarts == 0  # a supervisor repeats its flags
    parts = make_parts(settings, metrics)
    with ExitStack() as stack:
        with require_cold_start(cold_start):
            timeout = settings.checkpoints.lock_timeout
            locked = lock_folders(parts.stores, timeout, stop, report)
            if not stack.enter_context(locked):
                return Exit.DONE
        metrics_at, keys = settings.metrics, ("metrics.port", "metrics.host")
        stack.enter_context(metrics_server(metrics_at.host, metrics_at.port, registry, keys))
        epoch = parts.stores.checkpoints.leader_epoch
        metrics.leader.set(1)
        metrics.leader_epoch.set(epoch)
        stack.enter_context(sending(settings, metrics, epoch))
        before: int | None = None  # gaps that the last start accepted
        while (ended := _learn(parts, startup(parts, cold_start and before is None), stop)).gap:
            if kafka.on_gap != "accept" or before == 0 == ended.accepted:
                raise ended.gap  # a start that accepts nothing would lead here again
            log.warning("a gap is to be accepted", extra={"reason": str(ended.gap)})
            before = ended.accepted
    return Exit.DONE


class _Ended(NamedTuple):
    """How a loop has ended: by a gap, or because it was asked to."""

    gap: Gap | None
    accepted: int  # gaps, at its start or later


def _learn(parts: Parts, startup: Startup, stop: threading.Event) -> _Ended:
    """Let one loop learn until it is asked to stop, or finds a gap."""
    settings, metrics = parts.settings, parts.metrics
    kafka = settings.kafka
    loop: LearnerLoop | None = None
    try:
        with ExitStack() as stack:
            inputs = stack.enter_context(closing(Inputs(settings, metrics)))
            letters = DeadLetters(
                kafka.client(), kafka.dlq, kafka.dlq_timeout, metrics.dead_letters, settings.name
            )
            stack.enter_context(closing(letters))
            if traces := make_traces(settings, "learner"):
                stack.enter_context(closing(traces))
                loop = TracedLoop(parts, inputs, letters, stop, traces)
            else:
                loop = LearnerLoop(parts, inputs, letters, stop)
            stack.enter_context(closing(loop))
            stack.push(loop.rescue)
            if loop.begin(startup):
                loop.learn()
                loop.finish()
    except Gap as gap:
        return _Ended(gap, loop.gaps_accepted if loop else 0)
    except KafkaException as err:
        raise BrokerError(f"{kafka.bootstrap_servers}: {err.args[0].str()}") from err
    return _Ended(None, loop.gaps_accepted)
