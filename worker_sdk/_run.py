"""How a worker runs as a whole process, for `Handler.run()` and `rvq-worker` alike."""

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import NoReturn

from ._errors import ConfigurationError
from ._logs import DEFAULT_LOGS, Logs, configure_logs
from ._options import HandlerLike, Options
from ._process.guard import open_standard_streams
from ._settings import load_settings
from ._worker import Worker

LEAVE_SECONDS = 5.0  # how long threads and processes that handlers left may keep the process after its end


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
    open_standard_streams()
    configure_logs(logs)
    try:
        settings = load_settings(os.environ if environ is None else environ)
    except ConfigurationError as error:
        refuse(error)
    status = Worker(handler, options, settings=settings, until_empty=until_empty).run()
    threading.Thread(target=_leave, args=(status,), name="rvq-leave", daemon=True).start()
    if status:
        sys.exit(status)


def refuse(error: ConfigurationError) -> NoReturn:
    """Print every problem and exit with status 2."""
    for problem in error.problems:
        print(f"rvq-worker: {problem}", file=sys.stderr)
    sys.exit(2)


def _leave(status: int) -> None:
    """End the process a while after its main thread: threads that handlers left would keep it for ever."""
    main = threading.main_thread()
    main.join()
    time.sleep(LEAVE_SECONDS)
    kept = [one.name for one in threading.enumerate() if not one.daemon and one is not main]
    os.write(2, f"leaving although these go on: {', '.join(kept) or 'processes'}\n".encode())
    os._exit(status)
