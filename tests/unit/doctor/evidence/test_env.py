"""The environment: keys, proxies, and where the client runs."""

from typing import Any

import pytest

from wizard.doctor.checks import env_keys, env_place, env_proxy
from wizard.doctor.checks.env_proxy import edit_distance
from wizard.endpoint.proxies import is_malformed

LOCAL = "http://127.0.0.1:8000/v1"
PROXY = "http://user:hunter22@proxy:3128"


@pytest.mark.parametrize(
    ("env", "options", "codes"),
    [
        pytest.param({}, {}, [], id="nothing"),
        pytest.param({"OPENAI_API_KEY": "sk-0123456789abcdef"}, {}, [], id="a-key"),
        pytest.param({"OPENAI_API_KEY": "EMPTY"}, {}, [], id="a-word-for-servers-without-keys"),
        pytest.param({"OPENAI_API_KEY": " sk-0123456789 "}, {}, ["key-whitespace"], id="blanks"),
        pytest.param({"OPENAI_API_KEY": "sk-0123456789\n"}, {}, ["key-whitespace"], id="a-line-end"),
        pytest.param({"OPENAI_API_KEY": '"sk-0123456789"'}, {}, ["key-whitespace"], id="quotes"),
        pytest.param({"OPENAI_API_KEY": "“sk-0123456789”"}, {}, ["key-whitespace"], id="curly-quotes"),
        pytest.param({"OPENAI_API_KEY": "Bearer sk-0123456789"}, {}, ["key-whitespace"], id="bearer-in-front"),
        pytest.param({"OPENAI_API_KEY": "sk-0123\u200b456789"}, {}, ["key-whitespace"], id="an-invisible-character"),
        pytest.param({"TAOTOKEN_API_KEY": "sk-0123456789 "}, {}, ["key-whitespace"], id="a-gateway-s-variable"),
        pytest.param({"AWS_SECRET_ACCESS_KEY": "a b"}, {}, [], id="a-key-for-something-else"),
        pytest.param({"OPENAI_API_KEY": ""}, {"client_type": "openai-sdk"}, ["key-missing"], id="empty"),
        pytest.param({"OPENAI_API_KEY": "  "}, {"client_type": "openai-sdk"}, ["key-missing"], id="blanks-only"),
        pytest.param({"OPENAI_API_KEY": ""}, {}, [], id="empty-and-nobody-asked"),
        pytest.param({"OPENAI_API_KEY": "your-api-key"}, {}, ["key-placeholder"], id="an-example"),
        pytest.param({"OPENAI_API_KEY": "sk-xxxxxxxx"}, {}, ["key-placeholder"], id="x-es"),
        pytest.param({"OPENAI_API_KEY": "<YOUR_KEY>"}, {}, ["key-placeholder"], id="angle-brackets"),
        pytest.param(
            {"OPENAI_API_KEY": "sk-ant-api03-abcdef"}, {}, ["key-wrong-provider"], id="anthropic-s-key-to-openai"
        ),
        pytest.param(
            {"OPENAI_API_KEY": "sk-or-v1-abcdef", "OPENAI_BASE_URL": "https://openrouter.ai/api/v1"},
            {},
            [],
            id="own-host",
        ),
        pytest.param(
            {"OPENAI_API_KEY": "sk-or-v1-abcdef", "OPENAI_BASE_URL": "https://api.groq.com/openai/v1"},
            {},
            ["key-wrong-provider"],
            id="openrouter-s-key-to-groq",
        ),
        pytest.param(
            {"OPENAI_API_KEY": "sk-proj-abcdef0123", "OPENAI_BASE_URL": LOCAL}, {}, [], id="any-key-to-a-local-server"
        ),
        pytest.param(
            {"ANTHROPIC_API_KEY": "sk-proj-abcdef0123"}, {}, ["key-wrong-provider"], id="openai-s-key-to-anthropic"
        ),
    ],
)
def test_keys(env: dict[str, str], options: dict[str, Any], codes: list[str], look: Any, problems: Any) -> None:
    assert [problem.code for problem in problems(env_keys.CHECKS, look(env=env, **options))] == codes


def test_keys_are_never_shown(look: Any, problems: Any) -> None:
    env = {"OPENAI_API_KEY": " sk-ant-0123456789abcdef", "ANTHROPIC_API_KEY": "sk-proj-fedcba9876543210"}
    text = str(problems(env_keys.CHECKS, look(env=env)))
    assert "0123456789abcd" not in text
    assert "fedcba987654" not in text


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        pytest.param(
            "export OPENAI_API_KEY=sk-0123456789abcdef", ["key-env-not-visible"], id="not-in-this-environment"
        ),
        pytest.param("OPENAI_API_KEY=sk-0123456789abcdef", ["key-env-not-visible"], id="not-exported"),
        pytest.param("export OPENAI_API_KEY = sk-0123456789abcdef", ["key-whitespace"], id="spaces-around-the-sign"),
        pytest.param("# export OPENAI_API_KEY=sk-1", [], id="a-comment"),
        pytest.param("export PATH=$PATH:/opt/bin", [], id="something-else"),
    ],
)
def test_start_up_files(line: str, codes: list[str], look: Any, problems: Any) -> None:
    seen = look({"~/.bashrc": line + "\n"}, client_type="openai-sdk")
    assert [problem.code for problem in problems(env_keys.CHECKS, seen)] == codes


@pytest.mark.parametrize(
    ("env", "url", "codes"),
    [
        pytest.param({}, LOCAL, [], id="no-proxy"),
        pytest.param({"HTTP_PROXY": PROXY}, "https://api.openai.com/v1", [], id="a-remote-server"),
        pytest.param({"HTTP_PROXY": PROXY}, LOCAL, ["proxy-env-captures-local"], id="a-local-server"),
        pytest.param(
            {"ALL_PROXY": PROXY}, "http://192.168.1.5:8000/v1", ["proxy-env-captures-local"], id="a-private-address"
        ),
        pytest.param({"https_proxy": PROXY}, LOCAL, [], id="another-scheme-s-proxy"),
        pytest.param({"HTTP_PROXY": PROXY, "NO_PROXY": "localhost,127.0.0.1"}, LOCAL, [], id="excepted"),
        pytest.param({"HTTP_PROXY": PROXY, "NO_PROXY": "127.0.0.0/8"}, LOCAL, [], id="excepted-by-network"),
        pytest.param({"HTTP_PROXY": PROXY, "NO_PROXY": "*"}, LOCAL, [], id="everything-excepted"),
        pytest.param(
            {"HTTP_PROXY": PROXY, "NO_PROXY": "*127.0.0.1*"}, LOCAL, ["no-proxy-malformed"], id="a-star-inside"
        ),
        pytest.param(
            {"HTTP_PROXY": PROXY, "NO_PROXY": "http://127.0.0.1"}, LOCAL, ["no-proxy-malformed"], id="a-scheme"
        ),
        pytest.param(
            {"HTTP_PROXY": PROXY, "no_proxy": "localhost 127.0.0.1"}, LOCAL, ["no-proxy-malformed"], id="blanks"
        ),
        pytest.param(
            {"HTTP_PROXY": PROXY, "NO_PROXY": "localhost;127.0.0.1"}, LOCAL, ["no-proxy-malformed"], id="semicolons"
        ),
        pytest.param(
            {"HTTP_PROXY": PROXY, "NO_PROXY": "192.168.*"},
            "http://192.168.1.5:8000/v1",
            ["no-proxy-malformed"],
            id="a-pattern-of-addresses",
        ),
        pytest.param(
            {"HTTP_PROXY": PROXY, "NO_PROXY": "http://other.example"},
            LOCAL,
            ["proxy-env-captures-local", "no-proxy-malformed"],
            id="a-broken-entry-for-another-host",
        ),
        pytest.param({"HTTP_PORXY": PROXY}, LOCAL, ["proxy-env-typo"], id="letters-swapped"),
        pytest.param({"HTTPPROXY": PROXY}, LOCAL, ["proxy-env-typo"], id="no-underscore"),
        pytest.param({"NO_PROXI": "localhost"}, LOCAL, ["proxy-env-typo"], id="another-letter"),
        pytest.param({"Http_Proxy": PROXY}, LOCAL, ["proxy-env-typo"], id="mixed-case"),
        pytest.param({"FTP_PROXY": PROXY, "GOPROXY": "direct"}, LOCAL, [], id="other-programs-names"),
        pytest.param({"OPENAI_APIKEY": "sk-1"}, LOCAL, ["client-env-typo"], id="a-client-s-variable"),
        pytest.param({"HTTPS_PROXY": "proxy:3128"}, LOCAL, ["proxy-env-malformed"], id="no-scheme"),
        pytest.param(
            {"ALL_PROXY": "socks://127.0.0.1:1080", "NO_PROXY": "*"}, LOCAL, ["proxy-env-malformed"], id="socks"
        ),
    ],
)
def test_proxies(env: dict[str, str], url: str, codes: list[str], look: Any, problems: Any) -> None:
    found = problems(env_proxy.CHECKS, look(env=env, base_url=url))
    assert [problem.code for problem in found] == codes
    assert "hunter22" not in str(found)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        pytest.param("HTTP_PROXY", "HTTP_PROXY", 0, id="same"),
        pytest.param("HTTP_PORXY", "HTTP_PROXY", 1, id="swapped"),
        pytest.param("HTP_PROXY", "HTTP_PROXY", 1, id="missing"),
        pytest.param("HTTPX_PROXY", "HTTP_PROXY", 1, id="added"),
        pytest.param("FTP_PROXY", "HTTP_PROXY", 2, id="two-apart"),
        pytest.param("", "abc", 3, id="empty"),
    ],
)
def test_the_distance_of_two_words(one: str, other: str, distance: int) -> None:
    assert edit_distance(one, other) == distance


@pytest.mark.parametrize(
    "entry", ["localhost", ".corp.example", "*.corp.example", "10.0.0.0/8", "[::1]", "::1", "*", "<local>"]
)
def test_forms_of_no_proxy_that_match_something(entry: str) -> None:
    assert not is_malformed(entry)


@pytest.mark.parametrize(
    ("assumed", "url", "severity"),
    [
        pytest.param("container", "http://localhost:8000/v1", "error", id="loopback-in-a-container"),
        pytest.param("container", "http://host.docker.internal:8000/v1", None, id="the-host-s-name"),
        pytest.param(None, "http://localhost:8000/v1", None, id="on-the-host"),
    ],
)
def test_loopback_means_the_container_itself(
    assumed: Any, url: str, severity: str | None, look: Any, problems: Any
) -> None:
    found = problems(env_place.CHECKS, look(base_url=url, assumed=assumed))
    assert [(p.code, p.severity) for p in found] == ([("wrong-host-in-container", severity)] if severity else [])


def test_certificates_that_are_not_checked_are_told(look: Any, problems: Any) -> None:
    found = problems(env_place.CHECKS, look(env={"NODE_TLS_REJECT_UNAUTHORIZED": "0"}))
    assert [(p.code, p.severity) for p in found] == [("tls-verification-off", "warning")]


def test_an_authority_in_the_settings_only_comes_too_late(look: Any, problems: Any) -> None:
    files = {"~/.claude/settings.json": {"env": {"NODE_EXTRA_CA_CERTS": "/etc/ca.pem"}}}
    assert [p.code for p in problems(env_place.CHECKS, look(files))] == ["tls-untrusted-ca"]
    assert problems(env_place.CHECKS, look(files, {"NODE_EXTRA_CA_CERTS": "/etc/ca.pem"})) == []


@pytest.mark.parametrize(
    ("name", "value", "typo"),
    [
        pytest.param("HTTP_PROTO", "https", False, id="a-protocol"),
        pytest.param("HTTP_PROBE", "http://h/healthz", False, id="a-probe"),
        pytest.param("HTTP_PROD", "https://prod.example.com", False, id="production"),
        pytest.param("NO_PROBE", "1", False, id="a-switch"),
        pytest.param("ALL_PROD", "a,b", False, id="a-list"),
        pytest.param("HTTP_PROTO", "http://10.0.0.9:3128", True, id="a-proxy-s-address"),
        pytest.param("NO_PRODY", "1", True, id="a-y-is-left"),
        pytest.param("NO_PROBE", "localhost,10.0.0.0/8", True, id="exceptions"),
        pytest.param("HTTP_PORXY", "x", True, id="two-letters-swapped"),
    ],
)
def test_a_name_two_letters_away_is_a_typo_where_it_is_about_proxies(
    name: str, value: str, typo: bool, look: Any, problems: Any
) -> None:
    codes = [problem.code for problem in problems(env_proxy.CHECKS, look(env={name: value}))]
    assert codes == (["proxy-env-typo"] if typo else [])
