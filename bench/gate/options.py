"""The gate has options of its own on locust's command line."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from bench.gate.profile import DEFAULT, Profile, parse_budgets, read_profile

CONNECTIONS = 64  # of each of the three streams


def add_options(parser: ArgumentParser) -> None:
    # An open-loop schedule has no use for locust's own ramp; -u still says how many users there are.
    parser.set_defaults(headless=True, num_users=3 * CONNECTIONS, spawn_rate=1000)
    group = parser.add_argument_group("RVQ gate")
    add = group.add_argument
    add("--gate-profile", type=Path, default=DEFAULT, help="TOML file of load and budgets")
    add("--rate", type=float, help="ticks a second of create, of claim and of complete")
    add("--warmup", type=float, help="seconds before the metrics are reset; 0: a cold start")
    add("--duration", type=float, help="seconds that are measured")
    add("--sub-tasks", type=int, help="sub_tasks in each task")
    add("--claim-limit", type=int, help="sub_tasks that a claim asks for")
    add("--in-flight", type=int, help="ticks of a stream due and not answered; more are shed")
    add("--drain", type=float, help="seconds after the window for what is still on its way")
    add(
        "--budget", action="append", default=[], metavar="NAME=VALUE", help="override one budget (repeatable)"
    )
    add("--assert-slo", action="store_true", help="exit non-zero unless every check holds")
    add("--result", type=Path, help="write the result as JSON to this file")


def chosen_profile(options: Namespace) -> Profile:
    """Return the profile that the options ask for. Raises ProfileError."""
    names = ("rate", "warmup", "duration", "sub_tasks", "claim_limit", "in_flight", "drain")
    load = {name: getattr(options, name) for name in names}
    return read_profile(options.gate_profile, load, parse_budgets(options.budget))
