"""What users may import, and nothing more."""

import re
import subprocess
import sys

import worker_sdk
from worker_sdk import _errors, testing

PUBLIC = {
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
}


def test_the_public_names_are_these() -> None:
    assert set(worker_sdk.__all__) == PUBLIC
    assert {name for name in vars(worker_sdk) if not name.startswith("_")} <= PUBLIC | {"testing"}
    assert all(hasattr(worker_sdk, name) for name in PUBLIC)


def test_the_names_for_tests_are_these() -> None:
    assert set(testing.__all__) == {"FakeRVQ", "FakeSubTask", "Outcome", "run_handler"}


def test_the_tree_of_exceptions_is_the_one_that_is_drawn() -> None:
    drawn = re.findall(r"^[│ ]*(?:[├└]── )?([A-Z]\w+) *(?:  .*)?$", _errors.__doc__ or "", re.MULTILINE)
    real = {
        name
        for name, value in vars(_errors).items()
        if isinstance(value, type) and issubclass(value, Exception)
    }
    assert set(drawn) == real
    assert {name for name in real if name in worker_sdk.__all__} == real
    for name in real:
        depth = len(getattr(_errors, name).__mro__) - len(_errors.RVQError.__mro__)
        (line,) = re.findall(rf"^([│ ├└─]*){name}\b", _errors.__doc__ or "", re.MULTILINE)
        assert len(line) == 4 * depth


def test_importing_it_brings_nothing_else_of_rvq() -> None:
    code = (
        "import sys, worker_sdk, worker_sdk.testing, worker_sdk.__main__;"
        "found = {name.partition('.')[0] for name in sys.modules};"
        "print(found & {'app', 'bench', 'dispatcher', 'flask', 'psycopg2', 'msgspec'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
