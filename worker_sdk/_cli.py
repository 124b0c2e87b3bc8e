"""`rvq-worker module:Class`, and what `Handler.run()` does."""

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NoReturn

from ._errors import ConfigurationError
from ._handler import Handler, Options
from ._logs import DEFAULT_LOGS, Logs, configure_logs
from ._settings import load_settings
from ._version import __version__
from ._worker import Worker


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script. Raises SystemExit unless it ended cleanly."""
    args = _parser().parse_args(arguments)
    logs = Logs(args.log_level, args.log_format)
    try:
        handler = load_handler(args.handler)
        options = Options.of(handler, queues=args.queue, concurrency=args.concurrency, executor=args.executor)
    except ConfigurationError as error:
        _refuse(error)
    run_to_exit(handler, options, None, logs, until_empty=args.until_empty)


def run_to_exit(
    handler: type[Handler],
    options: Options,
    environ: Mapping[str, str] | None,
    logs: Logs = DEFAULT_LOGS,
    *,
    until_empty: bool = False,
) -> None:
    """Run until a signal. Raises SystemExit: 2 for wrong settings, 1 when something was left undone."""
    configure_logs(logs)
    try:
        settings = load_settings(os.environ if environ is None else environ)
    except ConfigurationError as error:
        _refuse(error)
    if status := Worker(handler, options, settings=settings, until_empty=until_empty).run():
        sys.exit(status)


def load_handler(name: str) -> type[Handler]:
    """`module:Class`, looked for in the current folder too. Raises ConfigurationError."""
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


def _refuse(error: ConfigurationError) -> NoReturn:
    for problem in error.problems:
        print(f"rvq-worker: {problem}", file=sys.stderr)
    sys.exit(2)
