"""A worker that is set up wrongly says everything that is wrong, and does not start."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.worker_sdk.loops import Echo
from worker_sdk import ConfigurationError, Handler, Options, SubTask, load_settings
from worker_sdk.__main__ import load_handler

GOOD = {"RVQ_URL": "https://rvq.example/base/", "RVQ_WORKER_TOKEN": "secret-token-0123456789"}


def test_settings_are_read_from_the_environment() -> None:
    settings = load_settings(GOOD)
    assert (settings.url, settings.token, settings.ca_bundle) == (
        "https://rvq.example/base",
        "secret-token-0123456789",
        None,
    )


def test_the_token_is_not_shown() -> None:
    assert "secret" not in repr(load_settings(GOOD))


def test_every_problem_is_listed_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings({"RVQ_CA_BUNDLE": "/no/such/file"})
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    "url",
    [
        "rvq.example",
        "ftp://rvq.example",
        "http://",
        "http://user:password@rvq.example",
        "http://rvq.example/?a=b",
        "http://rvq.example/#a",
        "http://rvq.example:99999",
        "http://rvq.example\n",
        "http://[::1",
        "http://rvq.exämple",
    ],
)
def test_an_odd_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="RVQ_URL"):
        load_settings(GOOD | {"RVQ_URL": url})


@pytest.mark.parametrize("token", ["", "secret\n", "two,tokens", "two tokens", "sécret", "secret\0"])
def test_an_odd_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigurationError, match="RVQ_WORKER_TOKEN") as caught:
        load_settings(GOOD | {"RVQ_WORKER_TOKEN": token})
    assert token == "" or token not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("queues", ("Upper",)),
        ("queues", ("",)),
        ("queues", ("a",) * 65),
        ("concurrency", 0),
        ("concurrency", True),
        ("concurrency", 1.5),
        ("executor", "fork"),
        ("lease_seconds", 0),
        ("lease_seconds", 3601),
        ("timeout_seconds", 0),
        ("prefetch", -1),
        ("prefetch_seconds", -1),
        ("poll_seconds", (0, 1)),
        ("poll_seconds", (2, 1)),
        ("grace_seconds", -1),
        ("flush_seconds", -1),
    ],
)
def test_an_option_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"Echo: {name} must"):
        Options.of(Echo, **{name: value})


def test_queues_go_before_queue() -> None:
    class Several(Echo):
        queue = "unused"
        queues: ClassVar[list[str]] = ["urgent", "later"]

    assert Options.of(Several).queues == ("urgent", "later")
    assert Options.of(Echo).queues == ("default",)


class NoHandle(Handler):
    """A handler whose author forgot to write `handle`."""


class Async(Handler):
    async def handle(self, sub_task: SubTask) -> Any:
        return None


class Yields(Handler):
    def handle(self, sub_task: SubTask) -> Any:
        yield None


class AsyncYields(Handler):
    async def handle(self, sub_task: SubTask) -> Any:
        yield None


class _Callable:
    async def __call__(self, sub_task: SubTask) -> Any:
        return None


class AsyncObject(Handler):
    handle = _Callable()


@pytest.mark.parametrize("handler", [NoHandle, Async, Yields, AsyncYields, AsyncObject])
def test_a_handler_without_a_plain_handle_is_refused(handler: type[Handler]) -> None:
    with pytest.raises(ConfigurationError, match="handle"):
        Options.of(handler)


class AsyncSetup(Handler):
    async def setup(self) -> None:  # type: ignore[override]
        raise AssertionError("nobody waits for it")

    def handle(self, sub_task: SubTask) -> Any:
        return None

    def teardown(self) -> Any:
        yield None


def test_a_setup_that_would_never_run_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Options.of(AsyncSetup)  # type: ignore[arg-type]
    assert caught.value.problems == [
        f"AsyncSetup: {name} must be a plain function, neither async nor a generator"
        for name in ("setup", "teardown")
    ]


def test_the_authority_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").touch()
    environ = {"RVQ_URL": "http://h", "RVQ_WORKER_TOKEN": "t" * 16, "RVQ_CA_BUNDLE": "ca.pem"}
    assert load_settings(environ).ca_bundle == str(tmp_path / "ca.pem")


def test_what_is_wrong_with_the_class_is_told_before_the_environment_is_read() -> None:
    with pytest.raises(ConfigurationError, match="NoHandle: handle is not defined"):
        NoHandle.run({})
    with pytest.raises(SystemExit) as caught:
        Echo.run({})
    assert caught.value.code == 2


def test_a_handler_is_found_by_its_name() -> None:
    assert load_handler("tests.worker_sdk.loops:Echo") is Echo


@pytest.mark.parametrize(
    "name",
    [
        "",
        ":",
        "no_such_module:Echo",
        "tests.worker_sdk.loops",
        "tests.worker_sdk.loops:Nobody",
        "tests.worker_sdk.loops:Clock",
    ],
)
def test_a_name_that_is_no_handler_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError):
        load_handler(name)
