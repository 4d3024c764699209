"""A checkpoint that is due is written, however many dead letters there are."""

import threading
from collections.abc import Callable

from confluent_kafka import Producer

from kaboost.service.config.settings import Settings
from tests.kafka.broker import Reachable
from tests.service.learning import learning, saved, until


def test_dead_letters_in_each_batch_put_no_checkpoint_off(
    topic: str, make_settings: Callable[..., Settings], broker: Reachable
) -> None:
    """Trap: while each batch had a dead letter, no checkpoint was written for minutes."""
    settings = make_settings(topic, checkpoints={"every_events": 100, "every_seconds": 3600})
    stop = threading.Event()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 0, "log_level": 0})

    def feed() -> None:
        while not stop.wait(0.002):  # in less than a batch takes: none is without a dead letter
            producer.produce(topic, b"no event", partition=0)
            producer.poll(0)

    thread = threading.Thread(target=feed)
    with learning(settings) as learner:
        until(lambda: saved(settings) == {0: 0})
        thread.start()
        try:
            until(lambda: saved(settings)[0] > 500, 30.0)
        finally:
            stop.set()
            thread.join()
        producer.flush(30)
        assert 0 == learner.stop()
