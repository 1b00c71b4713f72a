"""The program's first lines: `llm-setup` and `python -m wizard` begin here."""

from __future__ import annotations

import signal
from typing import NoReturn


def run() -> NoReturn:
    """Run the command line of this process; ends with its exit code."""
    # Python answers an interrupt while modules are being imported with a traceback; until `main` can answer, the
    # process just ends.
    asked = signal.getsignal(signal.SIGINT)
    if asked is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from wizard.cli.main import main

    signal.signal(signal.SIGINT, asked)
    main()


if __name__ == "__main__":
    run()
