"""`POST /predict` against a bare FastAPI route, with an idle and a busy learner.

`python -m bench.predict` needs wrk. It starts a real broker, a learner and one API process, and
sends requests to it and to the bare route in turn over 16 connections.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import msgspec
import psutil
import uvicorn
from fastapi import FastAPI, Request, Response

from bench.service import Service, answers, fill, rows, wait
from tests.kafka.broker import Broker
from tests.service.learning import free_port

BATCH = 1000
PAUSE = 8  # mean milliseconds between a response and the connection's next request
ANSWER = (  # as long as one of Kaboost's
    b'{"prediction":1,"probability":0.8312345678901234,"probabilities":{"0":0.1687654321098766,'
    b'"1":0.8312345678901234},"score":1.594321012345678,"model":{"name":"kaboost","version":412,'
    b'"events_learned":45312,"snapshot_time":"2026-11-20T10:00:00.000Z","cold_start":false,'
    b'"stale":false}}'
)
SCRIPT = """
wrk.method, wrk.body = "POST", {body}
wrk.headers["Content-Type"] = "application/json"
{delay}
done = function(summary, latency)
  local e = summary.errors
  print(summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        e.connect + e.read + e.write + e.status + e.timeout)
end
"""
DELAY = "delay = function() return math.random(0, {}) end"


class Load(NamedTuple):
    """The figures of one run of wrk."""

    per_second: float
    p50: float  # milliseconds
    p99: float
    cpu: float  # microseconds of the server's own time for one request


class Round(NamedTuple):
    """One round of all runs, a few seconds each; paced runs leave idle time."""

    bare: Load
    idle: Load
    busy: Load
    paced_idle: Load
    paced_busy: Load
    batch: Load


class Target(NamedTuple):
    """The target of a run and its length."""

    process: psutil.Process
    port: int
    seconds: int


def bare(port: int) -> None:
    """Serve a route that reads its body with msgspec and returns a constant."""
    app = FastAPI(telemetry={"tracing": False, "metrics": False, "logs": False})
    decode = msgspec.json.Decoder().decode

    @app.post("/predict")
    async def predict(request: Request) -> Response:
        decode(await request.body())
        return Response(ANSWER, media_type="application/json")

    uvicorn.run(app, port=port, http="httptools", ws="none", log_config=None, access_log=False)


@contextmanager
def serving_bare(seconds: int) -> Iterator[Target]:
    """Run the bare route in a process of its own."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.predict", "--bare", str(port)])
    try:
        wait(lambda: answers(f"http://127.0.0.1:{port}/docs"), process)
        yield Target(psutil.Process(process.pid), port, seconds)
    finally:
        process.terminate()
        process.wait(30)


def load(target: Target, body: bytes, connections: int = 16, pause: int = 0) -> Load:
    """Send requests with wrk; every response must be a success."""
    delay = DELAY.format(2 * pause) if pause else ""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT.format(body=f"[==[{body.decode()}]==]", delay=delay))
        script.flush()
        words = ["wrk", "-t1", f"-c{connections}", f"-d{target.seconds}s", "-s", script.name]
        url, begun = f"http://127.0.0.1:{target.port}/predict", cpu(target.process)
        done = subprocess.run([*words, url], capture_output=True, text=True, check=True)
    requests, duration, p50, p99, errors = map(float, done.stdout.splitlines()[-1].split())
    if errors:
        raise RuntimeError(f"{errors:.0f} requests failed\n{done.stdout}")
    spent = cpu(target.process) - begun
    return Load(requests / duration * 1e6, p50 / 1000, p99 / 1000, spent / requests * 1e6)


def cpu(process: psutil.Process) -> float:
    """Return the seconds of CPU time of a process and its workers."""
    family = [process, *process.children(recursive=True)]
    return float(sum(sum(each.cpu_times()[:2]) for each in family))


def turn(service: Service, api: Target, other: Target, events: int) -> Round:
    """Measure with a busy learner, then with an idle one, and then the bare route."""
    drawn = rows(BATCH)
    body = json.dumps({"features": drawn[0]}).encode()
    with service.running("learner", "--cold-start") as learner:
        service.ready(learner)
        service.learned(learner, 1)
        busy = [load(api, body, pause=pause) for pause in (0, PAUSE)]
        if service.told("kaboost_events_learned_total") >= events:
            raise RuntimeError("the backlog was too short: give more --events")
        service.learned(learner, events)
        idle = [load(api, body, pause=pause) for pause in (0, PAUSE)]
        found = load(other, body)
        batch = load(api, json.dumps({"instances": drawn}).encode(), connections=1)
    return Round(found, idle[0], busy[0], idle[1], busy[1], batch)


def report(turns: list[Round]) -> Iterator[str]:
    """Format the tables: medians of the rounds, ratios within each round."""
    named = {
        "a bare FastAPI route": [each.bare for each in turns],
        "one row, learner idle": [each.idle for each in turns],
        "one row, learner in a backlog": [each.busy for each in turns],
        "one row, paced, learner idle": [each.paced_idle for each in turns],
        "one row, paced, learner in a backlog": [each.paced_busy for each in turns],
    }
    yield "| `POST /predict`, one worker | requests/s | p50, ms | p99, ms | CPU, µs a request |"
    yield "|---|---|---|---|---|"
    for name, loads in named.items():
        speed, p50, p99, cpu = (median(column) for column in zip(*loads, strict=True))
        yield f"| {name} | {speed:,.0f} | {p50:.2f} | {p99:.2f} | {cpu:.0f} |"
    yield ""
    yield "| figure | measured | promised |"
    yield "|---|---|---|"
    speed = median(each.idle.per_second / each.bare.per_second for each in turns)
    yield f"| requests/s against the bare route | {speed:.2f} | at least 0.7 |"
    thrift = median(each.bare.cpu / each.idle.cpu for each in turns)
    yield f"| the same by processor time, which a busy machine disturbs less | {thrift:.2f} | |"
    paced = median(each.paced_busy.p99 / each.paced_idle.p99 for each in turns)
    yield f"| p99 in a backlog against idle, paced | {paced:.2f} | at most 2 |"
    full = median(each.busy.p99 / each.idle.p99 for each in turns)
    yield f"| p99 in a backlog against idle, as fast as it goes | {full:.2f} | at most 2 |"
    batches = median(each.batch.per_second for each in turns) * BATCH
    yield f"| rows/s in batches of {BATCH:,} | {batches:,.0f} | |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2_000_000, help="of the backlog")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each run of wrk")
    parser.add_argument("--bare", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        return bare(asked.bare)
    if shutil.which("wrk") is None:
        sys.exit("wrk is missing: apt-get install wrk, or brew install wrk")
    broker = Broker()
    broker.start()
    try:
        topic = fill(broker.bootstrap, asked.events)
        with tempfile.TemporaryDirectory() as folder, serving_bare(asked.seconds) as other:
            service = Service(Path(folder), broker.bootstrap, topic)
            with service.running("api") as process:
                api = Target(psutil.Process(process.pid), service.port, asked.seconds)
                turns = [turn(service, api, other, asked.events) for _ in range(asked.rounds)]
        print("\n".join(report(turns)))
    finally:
        broker.close()


if __name__ == "__main__":
    main()
