"""`kaboost demo`: learn, serve, kill the learner, recover, and check that every promise held."""

import json
import os
import signal
import threading
import time

from rich.console import Console

from kaboost.service.demo import producer
from kaboost.service.demo.checks import Check, headline, in_time, run_checks
from kaboost.service.demo.display import Display, print_checks
from kaboost.service.demo.late_label import show_late_label
from kaboost.service.demo.processes import TOPIC, DemoProcesses
from kaboost.service.demo.reference import uninterrupted
from kaboost.service.demo.sabotage import skip
from kaboost.service.demo.scenario import Scenario
from kaboost.service.demo.story import show_drift
from kaboost.service.errors import Exit, KaboostError


def run(*, keep: bool, sabotage: bool) -> int:
    """Run the demo; 0 if every check passed, 1 if one failed or could not be made.

    1. Print the address of the API before anything is started.
    2. Run the scenario: start, learn, kill, recover, send a bad event, wait for a checkpoint.
    3. Learn the same events in this process without interruption, and run every check.
    4. With `keep`, show a drift and its recovery, then a late label, and leave everything running
       until Ctrl-C.
    """
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell's & makes a process ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    console = Console(highlight=False)
    processes = DemoProcesses()
    try:
        checks, losses = perform(console, processes, sabotage)
        print_checks(console, checks)
        console.print(losses, soft_wrap=True)
        if keep:
            events = list(producer.rows())
            show_drift(console, processes, events)
            show_late_label(console, processes, events)
            stay(console, processes)
    except KaboostError as err:
        reason = f"The demo stopped: {err}"
        console.print(reason, processes.last_log_lines(), sep="\n", markup=False)
        return Exit.NOT_HELD
    finally:
        processes.close()
    return Exit.DONE if all(check.held for check in checks) else Exit.NOT_HELD


def perform(console: Console, processes: DemoProcesses, sabotage: bool) -> tuple[list[Check], str]:
    """Run the scenario, then check what was observed; also return the line of losses."""
    begin = time.monotonic()
    events = list(producer.rows())
    print_request(console, processes.port, events[0][0])
    tamper = skip if sabotage else lambda _: None
    with Display(console) as display:
        observed, final = Scenario(processes, display, events).run(tamper)
    checks = run_checks(observed, final, uninterrupted(events))
    return [*checks, in_time(time.monotonic() - begin, observed.compiled)], headline(final)


def print_request(console: Console, port: int, features: producer.Row) -> None:
    """Print the address and a request to copy."""
    address = f"http://127.0.0.1:{port}"
    body = json.dumps({"features": features})
    console.print(f"[bold]Kaboost[/] will serve {address} in a few seconds: open it, it is live.\n")
    console.print(
        f"curl -s {address}/predict -H 'Content-Type: application/json' -d '{body}'\n",
        soft_wrap=True,  # one line, to be copied whole
        markup=False,
    )


def stay(console: Console, processes: DemoProcesses) -> None:
    """Leave everything running until Ctrl-C."""
    address = f"http://127.0.0.1:{processes.port}"
    console.print(f"Still running at {address}. To stop it: Ctrl-C, or kill {os.getpid()}")
    broker = processes.settings.kafka.bootstrap_servers
    console.print(f"Broker {broker}, topic {TOPIC}, logs in {processes.folder}", soft_wrap=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        console.print("Stopping.")
