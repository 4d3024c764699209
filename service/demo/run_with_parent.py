"""Run a module as a program that ends when its parent process ends, whatever ended the parent."""

import runpy
import sys
import threading

from kaboost.service.processes.child import end_with_parent


def main() -> None:
    """Run `MODULE ARGUMENTS...`; the parent holds the other end of standard input."""
    threading.Thread(target=end_with_parent, name="lifeline", daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
