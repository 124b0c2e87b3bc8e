"""Ruff and mypy have nothing to say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.source import PACKAGES, ROOT


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ruff", "check", "--no-cache", "."), id="ruff-check"),
        pytest.param(("ruff", "format", "--no-cache", "--check", "."), id="ruff-format"),
        pytest.param(("mypy", "--no-error-summary", *PACKAGES, "tests"), id="mypy-strict"),
    ],
)
def test_clean(command: tuple[str, ...]) -> None:
    run = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, f"\n{run.stdout}{run.stderr}"
