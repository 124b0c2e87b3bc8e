"""The SDK for RVQ workers: subclass `Handler`, write `handle`, call `run()`.

    from worker_sdk import Handler

    class WordCount(Handler):
        queue = "text"

        def handle(self, sub_task):
            return {"words": len(sub_task.payload["text"].split())}

    if __name__ == "__main__":
        WordCount.run()

To read the source, start with `_worker`, which puts the threads together. `_claimer`, `_heartbeat` and
`_completer` are one loop each, `_slots` runs handlers (`_process` in processes of their own), and `_leases`
is what they all share.
"""

from ._errors import (
    APIError,
    Cancelled,
    ConfigurationError,
    Denied,
    Ending,
    Fail,
    PayloadError,
    Rejected,
    ResultError,
    Retry,
    RVQError,
    Unavailable,
)
from ._handler import Handler
from ._options import Options
from ._settings import Settings, load_settings
from ._sub_task import Raw, SubTask
from ._transport import Answer, Transport
from ._version import __version__
from ._worker import Worker

__all__ = [
    "APIError",
    "Answer",
    "Cancelled",
    "ConfigurationError",
    "Denied",
    "Ending",
    "Fail",
    "Handler",
    "Options",
    "PayloadError",
    "RVQError",
    "Raw",
    "Rejected",
    "ResultError",
    "Retry",
    "Settings",
    "SubTask",
    "Transport",
    "Unavailable",
    "Worker",
    "__version__",
    "load_settings",
]
