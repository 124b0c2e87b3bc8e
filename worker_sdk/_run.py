"""How a worker runs as a whole process, for `Handler.run()` and `rvq-worker` alike."""

import os
import sys
from collections.abc import Mapping
from typing import NoReturn

from ._errors import ConfigurationError
from ._logs import DEFAULT_LOGS, Logs, configure_logs
from ._options import HandlerLike, Options
from ._settings import load_settings
from ._worker import Worker


def run_to_exit(
    handler: type[HandlerLike],
    options: Options | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    logs: Logs = DEFAULT_LOGS,
    until_empty: bool = False,
) -> None:
    """Run until a signal. Raises SystemExit: 2 for wrong settings, 1 when something was left undone.

    Raises ConfigurationError when no options are given and the handler's own are wrong.
    """
    options = options or Options.of(handler)
    configure_logs(logs)
    try:
        settings = load_settings(os.environ if environ is None else environ)
    except ConfigurationError as error:
        refuse(error)
    if status := Worker(handler, options, settings=settings, until_empty=until_empty).run():
        sys.exit(status)


def refuse(error: ConfigurationError) -> NoReturn:
    """Print every problem and exit with status 2."""
    for problem in error.problems:
        print(f"rvq-worker: {problem}", file=sys.stderr)
    sys.exit(2)
