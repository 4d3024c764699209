"""kill -9, SIGSTOP and SIGTERM of each process at random moments."""

import os
import signal
from collections import Counter

from tests.chaos.clients import Clients
from tests.chaos.scenario import Run, scenario
from tests.chaos.service import Service, pause
from tests.chaos.traffic import Stream
from tests.service.learning import until

PROGRESS = 200  # records that are learned while nothing is wrong


@scenario(rounds=20, long=500)
def kill_learner(run: Run) -> None:
    """kill -9 of the learner at random moments; predictions go on."""
    service = Service(run)
    with service.under_load():
        for _ in range(run.rounds):
            pause(run, 0.0, 1.0)
            before = service.pid("learner")
            service.kill("learner")
            service.check_order()
            until(lambda before=before: service.pid("learner") != before)
            if run.draw.random() < 0.7:
                service.progress()


@scenario(rounds=10, long=250)
def kill_worker(run: Run) -> None:
    """kill -9 of one of two API workers; a request whose connection breaks is sent again."""
    service = Service(run, api={"workers": 2})
    service.broken_allowed = True
    with service.under_load():
        for _ in range(run.rounds):
            pause(run, 0.0, 0.5)
            role = run.draw.choice(["api-0", "api-1"])
            served = len(service.program.events("snapshot served"))
            service.kill(role)
            # The next is not killed before this one serves: one of the two is always there.
            until(lambda n=served: len(service.program.events("snapshot served")) > n)
        service.progress(PROGRESS)


@scenario(rounds=10, long=250)
def kill_supervisor(run: Run) -> None:
    """kill -9 of the supervisor, and the next one at once; requests are sent again."""
    service = Service(run)
    service.broken_allowed = True
    with service.under_load():
        for _ in range(run.rounds):
            pause(run, 0.0, 1.0)
            service.program.process.kill()
            service.program.process.wait()
            service.program.client.close()
            service.start()
            service.program.ready()
            if run.draw.random() < 0.7:
                service.progress()


@scenario(rounds=3, long=60)
def freeze_each(run: Run) -> None:
    """SIGSTOP of learner, API worker and supervisor for seconds; each goes on where it was."""
    service = Service(run, api={"workers": 2})
    with service.under_load():
        for k in range(run.rounds):
            pid = service.pid(("learner", "api-0", "supervisor")[k % 3])
            os.kill(pid, signal.SIGSTOP)
            pause(run, 1.0, 4.0)
            os.kill(pid, signal.SIGCONT)
            service.progress(PROGRESS)


@scenario(rounds=1, long=5)
def freeze_learner_for_good(run: Run) -> None:
    """SIGSTOP of the learner without an end: it is killed and started again."""
    service = Service(run)
    with service.under_load():
        for _ in range(run.rounds):
            pid = service.pid("learner")
            os.kill(pid, signal.SIGSTOP)
            until(lambda pid=pid: service.pid("learner") != pid)
            service.progress(PROGRESS)


@scenario(rounds=6, long=200)
def terminate_at_start(run: Run) -> None:
    """SIGTERM at a random moment of the start: no process misses it, and is killed 30 s later."""
    service = Service(run)
    for _ in range(run.rounds):
        program = service.start()
        try:
            pause(run, 0.5, 5.0)
            code = program.end(signal.SIGTERM)
        finally:
            program.close()
        # Before its handler is installed the signal itself ends the supervisor.
        assert code in (0, -signal.SIGTERM), f"exit code {code}"
        assert not program.events("not drained")
    run.events = service.end_of_topic()


@scenario(rounds=1, long=20)
def terminate_under_load(run: Run) -> None:
    """SIGTERM after 10,000 requests, while they go on: with draining none is refused or broken."""
    results: Counter[str] = Counter()
    for k in range(run.rounds):
        folder = run.folder / str(k)
        folder.mkdir()
        api = {"workers": 2, "drain_seconds": 2.0}
        service = Service(run, folder=folder, api=api, pace=100.0, stream=Stream(run.seed + k))
        with service.under_load(ask=False):
            clients = Clients(service.settings.api.port)
            until(lambda clients=clients: clients.results["200"] >= 10_000, 300.0)
            service.program.process.send_signal(signal.SIGTERM)
            results += clients.wait()
            code = service.program.process.wait(60)
            assert code == 0, f"exit code {code}"
    run.notes.append(f"{results.pop('200'):,} requests")
    assert not results, f"requests that were not answered: {dict(results)}"
