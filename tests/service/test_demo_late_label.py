"""The demo's late label: a second service on the demo's own broker."""

import re
from contextlib import closing
from io import StringIO
from itertools import islice

from rich.console import Console

from kaboost.service.demo import producer
from kaboost.service.demo.late_label import EVENTS, WAITING, show_late_label
from kaboost.service.demo.processes import DemoProcesses


def test_features_wait_and_a_late_label_is_learned() -> None:
    """It shows how many wait, how many labels came, and that the last one was learned."""
    output = StringIO()
    with closing(DemoProcesses()) as processes:
        processes.open_broker()
        console = Console(file=output, width=200)
        joined = show_late_label(console, processes, list(islice(producer.rows(), EVENTS)))
        logs = processes.last_log_lines()

    lines = output.getvalue()
    assert joined, lines + logs
    assert f"{EVENTS:,} features wait" in lines
    assert f"{EVENTS - WAITING:,} labels came" in lines
    assert re.search(rf"event {EVENTS - 1}, (UP|DOWN): learned .*; {WAITING - 1} wait on", lines)
