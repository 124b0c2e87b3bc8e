"""What serves the API, as it is installed here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from rvq.doctor.finding import Finding

PARSER = "gunicorn_h1c"


def of_server(parser: str = PARSER) -> Iterator[Finding]:
    """Say which of Gunicorn's workers serves, and what the other one would gain."""
    if importlib.util.find_spec(parser):
        yield Finding("ok", "server", "the fast parser is installed")
        return
    yield Finding(
        "advice",
        "server",
        "Gunicorn's own threads serve, since its C parser is not installed: a request costs more CPU, and a "
        "client that reads slowly holds a thread. With a C compiler: pip install 'rvq[fast]'",
    )
