"""Logs: one line an entry, every field in it, and no secret whatever happens."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from app.logs import configure_logging
from app.settings import load_settings
from tests.app.settings.test_settings import SECRET, TOKEN, URL


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Undo whatever a test configures."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(form: str, level: str = "info") -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    environ = {
        "APP_DATABASE_URL": URL,
        "APP_PARTNER_TOKEN": TOKEN,
        "APP_WEBHOOK_SECRET": SECRET,
        "APP_LOG_FORMAT": form,
        "APP_LOG_LEVEL": level,
    }
    configure_logging(load_settings(environ), stream)
    return logging.getLogger("rvq.test"), stream


def test_json_has_time_level_logger_message_and_fields() -> None:
    log, stream = logged("json")
    log.info("delivered %s", "it", extra={"delivery": "dlv_1", "attempt": 2})
    entry = json.loads(stream.getvalue())
    assert entry.pop("time").endswith("Z")
    assert entry == {
        "level": "info",
        "logger": "rvq.test",
        "message": "delivered it",
        "delivery": "dlv_1",
        "attempt": 2,
    }


def test_text_is_one_line_that_no_field_can_break_out_of() -> None:
    log, stream = logged("text")
    log.warning("two\nlines", extra={"plain": "x", "odd": 'a "b"\nc', "empty": ""})
    line = stream.getvalue()
    assert line.count("\n") == 1
    assert line.endswith('warning rvq.test: two\\nlines plain=x odd="a \\"b\\"\\nc" empty=""\n')


def test_an_exception_is_part_of_the_entry() -> None:
    log, stream = logged("json")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    assert "ValueError: broken" in json.loads(stream.getvalue())["exception"]


def test_below_the_level_nothing_is_written() -> None:
    log, stream = logged("json", level="error")
    log.warning("unseen")
    assert stream.getvalue() == ""


@pytest.mark.parametrize("form", ["json", "text"])
def test_secrets_are_cut_out_of_messages_fields_and_exceptions(form: str) -> None:
    log, stream = logged(form)
    try:
        raise RuntimeError(f"connecting to {URL}")
    except RuntimeError:
        log.exception("bearer %s", TOKEN, extra={"secret": SECRET})
    written = stream.getvalue()
    for secret in (TOKEN, SECRET.removeprefix("whsec_"), "pa55word-of-db"):
        assert secret not in written
    assert written.count("[secret]") == 3
