"""Stream a CSV file to a topic as labelled events, in the order of the file, at a given rate."""

import argparse
import csv
import gzip
import json
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import cycle, takewhile
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kaboost.service.errors import BrokerError, ConfigError, Exit

ELEC2 = Path(str(files("kaboost.data") / "elec2.csv.gz"))
BURST_SECONDS = 0.02  # between two bursts of events: sleeping after each event costs too much CPU
Row = dict[str, float]


def rows(path: Path = ELEC2) -> Iterator[tuple[Row, str]]:
    """Read the features and the label (the last column) of every row."""
    if not path.is_file():
        raise ConfigError(f"{path} does not exist: name a CSV file with --file")
    with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open() as file:
        reader = csv.reader(file)
        *names, _ = next(reader)
        for *values, label in reader:
            yield dict(zip(names, map(float, values), strict=True)), label


def schema(path: Path = ELEC2) -> dict[str, str]:
    """Name the kind of every feature: numbers, all of them."""
    features, _ = next(rows(path))
    return dict.fromkeys(features, "number")


def event(number: int, features: Row, label: str) -> bytes:
    """Write one labelled event."""
    body = {"id": str(number), "features": features, "label": label}
    return json.dumps(body, separators=(",", ":")).encode()


class Stream:
    """An idempotent producer that counts what the broker has acknowledged."""

    def __init__(self, client: Mapping[str, str], topic: str, partition: int) -> None:
        self.delivered = 0
        self.failed: list[str] = []
        self._topic, self._partition = topic, partition
        self._producer = Producer(
            {"enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 30_000, **client}
        )

    def send(self, value: bytes) -> None:
        """Queue one event; wait while the queue is full."""
        while True:
            try:
                self._producer.produce(
                    self._topic, value, partition=self._partition, on_delivery=self._delivered
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def poll(self) -> None:
        """Handle the acknowledgements so far."""
        self._producer.poll(0)

    def finish(self, timeout: float) -> None:
        """Wait until every event is acknowledged."""
        left = self._producer.flush(timeout)
        if left or self.failed:
            reason = self.failed[0] if self.failed else f"no acknowledgement in {timeout:.0f} s"
            raise BrokerError(f"{left + len(self.failed)} events were not written: {reason}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed.append(error.str())


def stream(target: Stream, events: Iterator[bytes], rate: float) -> int:
    """Send the events at `rate` a second; return how many were written."""
    begin = time.monotonic()
    for sent, value in enumerate(events, 1):
        target.send(value)
        if target.failed:
            break
        ahead = sent / rate - (time.monotonic() - begin)
        if ahead > BURST_SECONDS:
            target.poll()
            time.sleep(ahead)
    target.finish(30.0)
    return target.delivered


def positive_rate(text: str) -> float:
    """Parse a rate, which must be above 0."""
    rate = float(text)
    if not rate > 0:
        raise ValueError
    return rate


def options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m kaboost.service.demo.producer", description=__doc__
    )
    parser.add_argument("--bootstrap-servers", default="127.0.0.1:9092")
    parser.add_argument("--topic", default="kaboost.events.v1")
    parser.add_argument("--partition", type=int, default=0)
    parser.add_argument(
        "--rate", type=positive_rate, default=1000.0, help="events a second, above 0"
    )
    parser.add_argument("--file", type=Path, default=ELEC2, help="CSV, the label last; .gz or not")
    parser.add_argument("--first-id", type=int, default=0, help="id of the first event")
    forever = "start over after the last row, until a signal; rows are kept in memory"
    parser.add_argument("--forever", action="store_true", help=forever)
    return parser.parse_args()


def main() -> int:
    """Stream one file until its end or a signal, then wait for the acknowledgements."""
    args, signals = options(), list[int]()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: signals.append(received))
    try:
        target = Stream({"bootstrap.servers": args.bootstrap_servers}, args.topic, args.partition)
        source = cycle(rows(args.file)) if args.forever else rows(args.file)
        events = (event(number, *row) for number, row in enumerate(source, args.first_id))
        print(stream(target, takewhile(lambda _: not signals, events), args.rate), "events written")
    except (BrokerError, ConfigError, KafkaException) as err:
        print(f"kaboost producer: {err}", file=sys.stderr)
        return Exit.USAGE if isinstance(err, ConfigError) else Exit.BROKER
    return Exit.INTERRUPTED if signal.SIGINT in signals else Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
