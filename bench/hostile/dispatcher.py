"""`python -m bench.hostile.dispatcher` is the dispatcher with the authority of the hostile suite.

It is the same process as `python -m dispatcher`, but it trusts the suite's authority, knows the suite's
names, and may be given a shorter deadline. These are arguments of this program, so that nothing in the
environment of the real one can loosen it.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys

from bench.hostile.names import resolve
from dispatcher.__main__ import main
from dispatcher.http.connector import Limits
from dispatcher.http.sender import make_sender


def limits(deadline: float) -> Limits:
    """Return the real limits shortened together: `deadline` is for the whole attempt, in seconds."""
    real = Limits()
    share = deadline / real.total
    return Limits(total=deadline, resolve=real.resolve * share, connect=real.connect * share)


def run() -> int:
    parser = argparse.ArgumentParser(description="the dispatcher, for the hostile suite")
    parser.add_argument("--ca-file", required=True, help="PEM of the authority to trust")
    parser.add_argument("--deadline", type=float, default=Limits().total, help="seconds for an attempt")
    options = parser.parse_args()
    sender_for = functools.partial(
        make_sender, limits=limits(options.deadline), resolver=resolve, ca_file=options.ca_file
    )
    return main(os.environ, sender_for)


if __name__ == "__main__":
    sys.exit(run())
