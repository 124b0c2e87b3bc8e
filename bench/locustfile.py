"""The gate is open-loop load on a running RVQ, with PASS or FAIL as the exit status.

    locust -f bench/locustfile.py --rate 500 --warmup 60 --duration 120 --assert-slo

It needs GATE_API_URL, GATE_PARTNER_TOKEN, GATE_WORKER_TOKEN and GATE_WEBHOOK_URL (bench/receiver.py, as the
API's allowlist knows it); `make gate` starts all of that. With --assert-slo the status is 0 on PASS only;
without, it tells whether the measurement itself worked.
"""

from __future__ import annotations

import itertools
import os
import sys
import traceback
from argparse import Namespace
from pathlib import Path
from typing import Any

import gevent
from locust import User, events, log, task
from locust.env import Environment
from locust.runners import Runner

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.gate.options import add_options, chosen_profile
from bench.gate.profile import Profile
from bench.gate.report import finish, write_failure
from bench.gate.run import Run
from bench.gate.target import Target, read_target

FAILED = 1
NUMBERS = itertools.count(1)


class Gate:
    """What the listeners hand on to each other."""

    profile: Profile
    target: Target
    run: Run
    options: Namespace


GATE = Gate()


class GateUser(User):
    """One greenlet and one connection; locust makes as many of each stream."""

    abstract = True
    stream_name: str

    def on_start(self) -> None:
        self._user = GATE.run.user(self.stream_name, next(NUMBERS))

    @task
    def all_ticks(self) -> None:
        self._user.run()
        # The stream has ended: nothing to do until locust stops its users.
        gevent.sleep(3600)


class Create(GateUser):
    stream_name = "create"


class Claim(GateUser):
    stream_name = "claim"


class Complete(GateUser):
    stream_name = "complete"


def prepare(environment: Environment, **_: Any) -> None:
    """Read the options; whatever happens from here on, only a run that passes may end with success."""
    environment.process_exit_code = FAILED
    assert environment.parsed_options
    GATE.options = environment.parsed_options
    try:
        GATE.profile = chosen_profile(GATE.options)
        GATE.target = read_target(os.environ)
        GATE.target.check()
    except Exception as error:
        write_failure("start", error, GATE.options)
        raise SystemExit(FAILED) from error


def start(environment: Environment, **_: Any) -> None:
    GATE.run = Run(GATE.profile, GATE.target, gevent.sleep)
    gevent.spawn(conduct, environment)


def conduct(environment: Environment) -> None:
    """Run from the first tick to the checks; locust ends when this does, however it ends."""
    assert environment.runner
    try:
        GATE.run.measure()
        if finish(GATE.run, _exceptions(environment.runner), GATE.options):
            environment.process_exit_code = 0
    except BaseException as error:
        traceback.print_exc()
        write_failure("run", error, GATE.options)
    finally:
        environment.runner.quit()


def _exceptions(runner: Runner) -> list[str]:
    """Return what locust catches and only logs: exceptions of users, listeners and other greenlets."""
    found = [f"{raised['msg']} x {raised['count']}" for raised in runner.exceptions.values()]
    if log.unhandled_greenlet_exception:
        found.append("a listener or a greenlet raised; the log tells")
    return found


hooks: Any = events  # its add_listener has no types
hooks.init_command_line_parser.add_listener(add_options)
hooks.init.add_listener(prepare)
hooks.test_start.add_listener(start)
