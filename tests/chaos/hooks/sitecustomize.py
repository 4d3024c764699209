"""Faults inside a process of the service, for the chaos suite alone.

Python imports this module at its start where this folder is in PYTHONPATH: that is how the faults
get into processes that are otherwise those of a user. Without its variables it does nothing.

CHAOS_QUICK      restarts after at most half a second: a thousand kills fit into an hour
CHAOS_DISK       a folder: `faults.json` in it says what the disk does, see disk.py; what
                         is durable is copied there
CHAOS_CLOCK      a file with the seconds by which the wall clock is wrong, see clock.py
CHAOS_MUTATION   the guarantee to break, see mutants.py
"""

import os

if "CHAOS_CLOCK" in os.environ:  # first: others import what it replaces
    from tests.chaos.hooks import clock

    clock.install(os.environ["CHAOS_CLOCK"])
if "CHAOS_QUICK" in os.environ:
    from kaboost.service.processes import supervisor

    supervisor.MAX_DELAY_SECONDS = 0.5
if "CHAOS_DISK" in os.environ:
    from tests.chaos.hooks import disk

    disk.install(os.environ["CHAOS_DISK"])
if "CHAOS_MUTATION" in os.environ:
    from tests.chaos.hooks import mutants

    getattr(mutants, os.environ["CHAOS_MUTATION"])()
