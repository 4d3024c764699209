"""The main job in front of one's eyes: learn, serve, crash, come back, and prove that all held."""

import json
import os
import signal
import threading
import time

from rich.console import Console

from kaboost.service.demo import producer
from kaboost.service.demo.claims import Claim, check, headline, in_time
from kaboost.service.demo.play import Play
from kaboost.service.demo.reference import uninterrupted
from kaboost.service.demo.sabotage import rewind
from kaboost.service.demo.screen import Screen, verdict
from kaboost.service.demo.stage import TOPIC, Stage
from kaboost.service.errors import Exit, KaboostError


def run(*, keep: bool, sabotage: bool) -> int:
    """Play the demo; 0 if every claim held, 1 if one did not or could not be checked.

    1. Say where the API will be, before anything is started.
    2. Play: start, learn, kill, come back, poison, wait for the last checkpoint.
    3. Learn the same events in this process, undisturbed, and check every claim.
    4. With `keep`, leave everything running until Ctrl-C.
    """
    for each in (signal.SIGTERM, signal.SIGINT):  # which a shell's & would have it ignore
        signal.signal(each, signal.default_int_handler)
    console = Console(highlight=False)
    stage = Stage()
    try:
        claims, losses = perform(console, stage, sabotage)
        verdict(console, claims)
        console.print(losses, soft_wrap=True)
        if keep:
            stay(console, stage)
    except KaboostError as err:
        console.print("The demo stopped: " + str(err), stage.complaint(), sep="\n", markup=False)
        return Exit.NOT_HELD
    finally:
        stage.close()
    return Exit.DONE if all(claim.held for claim in claims) else Exit.NOT_HELD


def perform(console: Console, stage: Stage, sabotage: bool) -> tuple[list[Claim], str]:
    """Play, then check what was seen and nothing else; also say how well it predicted."""
    begin = time.monotonic()
    events = list(producer.rows())
    invite(console, stage.port, events[0][0])
    with Screen(console) as screen:
        facts, final = Play(stage, screen, events).perform(rewind if sabotage else lambda _: None)
    claims = check(facts, final, uninterrupted(events))
    return [*claims, in_time(time.monotonic() - begin, facts.compiled)], headline(final)


def invite(console: Console, port: int, features: producer.Row) -> None:
    """Print the address and a request to copy."""
    address = f"http://127.0.0.1:{port}"
    body = json.dumps({"features": features})
    console.print(f"[bold]Kaboost[/] will answer at {address} in some seconds. Ask it yourself:\n")
    console.print(
        f"curl -s {address}/predict -H 'Content-Type: application/json' -d '{body}'\n",
        soft_wrap=True,  # one line, to be copied whole
        markup=False,
    )


def stay(console: Console, stage: Stage) -> None:
    """Leave everything running until Ctrl-C."""
    address = f"http://127.0.0.1:{stage.port}"
    console.print(f"Still running at {address}. Ctrl-C ends it, or: kill {os.getpid()}")
    broker = stage.settings.kafka.bootstrap_servers
    console.print(f"Broker {broker}, topic {TOPIC}, logs in {stage.folder}", soft_wrap=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        console.print("Ending.")
