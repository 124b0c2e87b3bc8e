"""Settings: what is read, what is refused, and that nothing secret is ever shown."""

from __future__ import annotations

import base64
from ipaddress import ip_network

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from app.settings import Settings, SettingsError, load_settings, require_delivery
from app.settings.settings import KNOWN_NAMES
from app.webhooks.addresses import AllowedHost, PrivateHost

URL = "postgresql://rvq:pa55word-of-db@db.internal/rvq"
TOKEN = "partner-token-0123456789"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
SEED = bytes(range(1, 33))


def load(**environ: str) -> Settings:
    return load_settings({"APP_DATABASE_URL": URL, **environ})


def problems(**environ: str) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(**environ)
    return caught.value.problems


def only_problem(**environ: str) -> str:
    found = problems(**environ)
    assert len(found) == 1, found
    return found[0]


def whsec(length: int) -> str:
    return "whsec_" + base64.b64encode(bytes(length)).decode()


def test_a_database_url_alone_is_enough_and_leaves_every_api_off() -> None:
    settings = load()
    assert settings.database_url == URL
    assert settings.partner_tokens == settings.worker_tokens == settings.admin_tokens == ()
    assert (settings.bind, settings.db_pool, settings.dispatcher_db_pool) == ("127.0.0.1:8000", 32, 32)
    assert (settings.dispatcher_threads, settings.retention_days) == (32, 30)
    assert (settings.log_level, settings.log_format) == ("info", "json")


def test_the_default_number_of_processes_always_divides_the_pool() -> None:
    for pool in range(1, 65):
        settings = load(APP_DB_POOL=str(pool))
        assert settings.processes * settings.connections_per_process == pool


def test_all_problems_are_listed_at_once_in_the_exception_and_its_text() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"APP_PARTNER_TOKEN": "short", "APP_DB_POOL": "x", "APP_PORT": "1"})
    names = {line.partition(":")[0] for line in caught.value.problems}
    assert names == {"APP_DATABASE_URL", "APP_PARTNER_TOKEN", "APP_DB_POOL", "APP_PORT"}
    assert all(line in str(caught.value) for line in caught.value.problems)


def test_no_value_appears_in_any_problem_or_in_repr() -> None:
    canary = "canary-value"
    refused = dict.fromkeys(KNOWN_NAMES, f"{canary} \x01")
    with pytest.raises(SettingsError) as caught:
        load_settings(refused)
    assert len({line.partition(":")[0] for line in caught.value.problems}) == len(KNOWN_NAMES)
    assert canary not in str(caught.value)
    shown = repr(
        load(
            APP_PARTNER_TOKEN=TOKEN,
            APP_WEBHOOK_SECRET=SECRET,
            APP_WEBHOOK_SIGNING_KEY="whsk_" + base64.b64encode(SEED).decode(),
        )
    )
    for secret in ("pa55word", TOKEN, repr(bytes(range(32))), repr(SEED)):
        assert secret not in shown


@pytest.mark.parametrize("name", ["APP_PARTNER_TOKENS", "APP_", "DISPATCHER_POOL", "APP_db_pool"])
def test_an_unknown_name_is_a_problem(name: str) -> None:
    assert only_problem(**{name: "1"}) == f"{name}: no such setting"


def test_names_of_other_programs_are_left_alone() -> None:
    load(PATH="/bin", APPDATA="x", RVQ_URL="http://127.0.0.1:8000")


@pytest.mark.parametrize(
    "url",
    ["", "mysql://db/rvq", "db.internal", "host=db", "postgresql://h?nonsense=1", "postgresql://[::1/rvq"],
)
def test_a_database_url_must_be_one(url: str) -> None:
    assert "APP_DATABASE_URL" in only_problem(APP_DATABASE_URL=url)


@pytest.mark.parametrize("password", ["xq@zj", "xq/zj", "12/zj", "xq:z/zj", "xq%zj", "xq\udcffzj"])
def test_a_password_with_a_bare_character_of_urls_is_told_apart_and_not_shown(password: str) -> None:
    text = only_problem(APP_DATABASE_URL=f"postgresql://rvq:{password}@db.internal/rvq")
    assert "are written as %40 %3A %2F" in text
    assert not any(piece in text for piece in ("xq", "zj", "12"))


@pytest.mark.parametrize(
    "url", ["postgres://h/d", "postgresql://a:5432,b:5433/d", "postgresql:///d?host=/run/postgresql"]
)
def test_every_form_of_url_that_libpq_takes_is_taken(url: str) -> None:
    assert load(APP_DATABASE_URL=url).database_url == url


def test_several_tokens_are_read_in_order_while_rotating() -> None:
    assert load(APP_WORKER_TOKEN=f"{TOKEN}-new, {TOKEN}").worker_tokens == (f"{TOKEN}-new", TOKEN)


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("x" * 15, "shorter than 16"),
        (f"{TOKEN},", "entry 2 is empty"),
        (f",{TOKEN}", "entry 1 is empty"),
        (" ", "entry 1 is empty"),
        ("token with blanks in it", "can't have"),
        ("token-with-ümlaut-in-it", "can't have"),
        ('token"with"quotes"in"it', "can't have"),
        (f"{TOKEN},{TOKEN}", "twice"),
    ],
)
def test_a_weak_or_broken_token_is_a_problem(value: str, rule: str) -> None:
    assert rule in only_problem(APP_ADMIN_TOKEN=value)


def test_two_audiences_never_share_a_token_not_even_one_of_several() -> None:
    other = TOKEN + "-other"
    found = only_problem(APP_PARTNER_TOKEN=f"{other},{TOKEN}", APP_ADMIN_TOKEN=TOKEN)
    assert found == "APP_ADMIN_TOKEN: has a token that APP_PARTNER_TOKEN has too"


@pytest.mark.parametrize("length", [24, 32, 64])
def test_a_secret_of_24_to_64_bytes_is_decoded(length: int) -> None:
    assert load(APP_WEBHOOK_SECRET=whsec(length)).webhook_secrets == (bytes(length),)


@pytest.mark.parametrize(
    "value",
    [
        whsec(23),
        whsec(65),
        SECRET + "\n",
        SECRET + " ",
        " " + SECRET,
        SECRET.removeprefix("whsec_"),
        SECRET.replace("whsec_", "WHSEC_"),
        SECRET.rstrip("="),
        SECRET[:20] + "\n" + SECRET[20:],
        "whsec_" + base64.urlsafe_b64encode(b"\xff" * 32).decode(),
        "whsec_",
        SECRET + ",",
        SECRET + "\n," + whsec(24),
        f"{SECRET},{SECRET}",
    ],
)
def test_a_secret_that_is_not_exactly_right_is_a_problem(value: str) -> None:
    assert "APP_WEBHOOK_SECRET" in only_problem(APP_WEBHOOK_SECRET=value)


def test_several_secrets_keep_their_order() -> None:
    secrets = load(APP_WEBHOOK_SECRET=f"{SECRET}, {whsec(24)}").webhook_secrets
    assert secrets == (bytes(range(32)), bytes(24))


def test_a_signing_key_is_a_seed_alone_or_with_its_public_half() -> None:
    public = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
    for key in (SEED, SEED + public):
        encoded = "whsk_" + base64.b64encode(key).decode()
        assert load(APP_WEBHOOK_SIGNING_KEY=encoded).webhook_signing_key == SEED


@pytest.mark.parametrize("key", [SEED[:31], SEED + SEED, b""])
def test_a_signing_key_of_another_length_or_with_a_foreign_public_half_is_a_problem(key: bytes) -> None:
    assert "SIGNING_KEY" in only_problem(APP_WEBHOOK_SIGNING_KEY="whsk_" + base64.b64encode(key).decode())


def test_allowed_hosts_have_an_exact_scheme_and_port() -> None:
    text = "hooks.partner.example, http://127.0.0.1:9000,a.example:8443,http://b.example,[::1]:9000,[2001:db8::1]"
    assert load(APP_WEBHOOK_ALLOWED_HOSTS=text).webhook_allowed_hosts == (
        AllowedHost("https", "hooks.partner.example", 443),
        AllowedHost("http", "127.0.0.1", 9000),
        AllowedHost("https", "a.example", 8443),
        AllowedHost("http", "b.example", 80),
        AllowedHost("https", "::1", 9000),
        AllowedHost("https", "2001:db8::1", 443),
    )


@pytest.mark.parametrize(
    "entry",
    [
        "Hooks.partner.example",
        "ftp://hooks.partner.example",
        "hooks.partner.example/",
        "hooks.partner.example:0",
        "hooks.partner.example:65536",
        "hooks.partner.example:",
        "hooks.partner.example:0443",
        "hooks.partner.example.",
        "user@hooks.partner.example",
        "*.partner.example",
        "höoks.example",
        "a..example",
        "-a.example",
        "127.1",
        "127.0.0.01",
        "0x7f000001",
        "2130706433",
        "a.example.0x1",
        "::1",
        "[::1",
        "[0:0::1]",
        "[127.0.0.1]",
        "[fe80::1%eth0]",
        "a b.example",
        "a" * 64 + ".example",
        "http://",
        "http://http://a.example",
    ],
)
def test_an_allowlist_entry_that_is_not_one_exact_host_is_a_problem(entry: str) -> None:
    assert "entry 2" in only_problem(APP_WEBHOOK_ALLOWED_HOSTS=f"good.example,{entry}")


def test_private_hosts_are_pairs_of_host_and_network() -> None:
    text = "hooks.internal=10.1.0.0/16, 127.0.0.1=127.0.0.1/32,v6.internal=fd00::/8"
    assert load(APP_WEBHOOK_PRIVATE_HOSTS=text).webhook_private_hosts == (
        PrivateHost("hooks.internal", ip_network("10.1.0.0/16")),
        PrivateHost("127.0.0.1", ip_network("127.0.0.1/32")),
        PrivateHost("v6.internal", ip_network("fd00::/8")),
    )


@pytest.mark.parametrize(
    "entry",
    [
        "10.0.0.0/8",
        "h.internal",
        "h.internal=",
        "=10.0.0.0/8",
        "h.internal=10.0.0.1/8",
        "h:80=10.0.0.0/8",
        "H=::/0",
        "h.internal=0.0.0.0/0",
        "h.internal=8.8.8.8/32",
        "h.internal=::/0",
    ],
)
def test_a_private_host_that_is_not_a_clean_pair_is_a_problem(entry: str) -> None:
    assert "entry 1" in only_problem(APP_WEBHOOK_PRIVATE_HOSTS=entry)


@pytest.mark.parametrize(
    "name",
    ["APP_DB_POOL", "APP_PROCESSES", "DISPATCHER_DB_POOL", "DISPATCHER_THREADS", "APP_RETENTION_DAYS"],
)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "1e3", " 8", "9999999", "٣", "+8"])
def test_a_count_must_be_a_plain_number_within_bounds(name: str, value: str) -> None:
    assert name in only_problem(**{name: value})


@pytest.mark.parametrize(("pool", "processes"), [("32", "3"), ("32", "64"), ("4", "8")])
def test_the_processes_must_divide_the_pool(pool: str, processes: str) -> None:
    assert "must divide APP_DB_POOL" in only_problem(APP_DB_POOL=pool, APP_PROCESSES=processes)


def test_each_process_gets_an_equal_share_of_the_pool_as_connections() -> None:
    assert load(APP_DB_POOL="32", APP_PROCESSES="8").connections_per_process == 4


@pytest.mark.parametrize("bind", ["127.0.0.1:8000", "[::1]:8000", "0.0.0.0:80", "unix:/run/rvq/api.sock"])
def test_bind_is_host_and_port_or_a_socket(bind: str) -> None:
    assert load(APP_BIND=bind).bind == bind


@pytest.mark.parametrize("bind", ["8000", ":8000", "localhost", "localhost:http", "localhost:65536", "unix:"])
def test_bind_of_another_form_is_a_problem(bind: str) -> None:
    assert "APP_BIND" in only_problem(APP_BIND=bind)


def test_log_level_and_format_are_from_fixed_lists() -> None:
    assert "info" in only_problem(APP_LOG_LEVEL="loud")
    assert "json" in only_problem(APP_LOG_FORMAT="xml")
    assert load(APP_LOG_LEVEL="debug", APP_LOG_FORMAT="text").log_format == "text"


def test_delivery_needs_a_secret_and_an_allowlist() -> None:
    assert [line.partition(":")[0] for line in require_delivery(load())] == [
        "APP_WEBHOOK_SECRET",
        "APP_WEBHOOK_ALLOWED_HOSTS",
    ]
    both = load(APP_WEBHOOK_SECRET=SECRET, APP_WEBHOOK_ALLOWED_HOSTS="hooks.partner.example")
    assert require_delivery(both) == []
