"""The command `rvq-worker module:Class`, also as `python -m worker_sdk module:Class`."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from ._errors import ConfigurationError
from ._handler import Handler
from ._logs import Logs
from ._options import Options
from ._run import refuse, run_to_exit
from ._version import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the worker that the arguments describe. Raises SystemExit unless it ended cleanly."""
    args = _parser().parse_args(arguments)
    try:
        handler = load_handler(args.handler)
        options = Options.of(handler, queues=args.queue, concurrency=args.concurrency, executor=args.executor)
    except ConfigurationError as error:
        refuse(error)
    logs = Logs(args.log_level, args.log_format)
    run_to_exit(handler, options, logs=logs, until_empty=args.until_empty)


def load_handler(name: str) -> type[Handler]:
    """Import `module:Class`, from the current folder too. Raises ConfigurationError."""
    module_name, _, class_name = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        handler = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigurationError([f"cannot load {name!r} (module:Class is wanted): {error}"]) from error
    if not (isinstance(handler, type) and issubclass(handler, Handler)):
        raise ConfigurationError([f"{name} is not a subclass of worker_sdk.Handler"])
    return handler


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("rvq-worker", description="Work off RVQ sub_tasks with a Handler.")
    parser.add_argument("handler", metavar="module:Class")
    parser.add_argument("--queue", action="append", help="repeat it for several, in order of preference")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--executor", choices=("thread", "process"))
    parser.add_argument("--until-empty", action="store_true", help="stop when there is nothing left to do")
    parser.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.add_argument("--log-format", choices=("text", "json"), default="text")
    parser.add_argument("--version", action="version", version=__version__)
    return parser


if __name__ == "__main__":
    main()
