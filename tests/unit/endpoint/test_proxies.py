"""Which proxy a URL goes through, by the rules that clients share."""

from __future__ import annotations

import pytest

from wizard.endpoint.proxies import entry_matches, is_malformed, route

PROXY = {"HTTP_PROXY": "http://user:word@10.0.0.1:3128"}


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        pytest.param("http://a.test/v1", PROXY, "http://user:word@10.0.0.1:3128", id="http"),
        pytest.param("https://a.test/v1", PROXY, None, id="http-proxy-is-not-for-https"),
        pytest.param("https://a.test/", {"ALL_PROXY": "10.0.0.1:1"}, "http://10.0.0.1:1", id="all-without-scheme"),
        pytest.param("http://a.test/", {**PROXY, "http_proxy": "http://b:1"}, "http://b:1", id="lower-case-wins"),
        pytest.param("http://127.0.0.1:8000/", {**PROXY, "NO_PROXY": "127.0.0.1"}, None, id="bypassed"),
        pytest.param(
            "http://127.0.0.1:8000/", {**PROXY, "NO_PROXY": "http://127.0.0.1"}, PROXY["HTTP_PROXY"], id="bad"
        ),
        pytest.param("http://a.test:x/", PROXY, None, id="no-url"),
    ],
)
def test_a_url_s_way(url: str, env: dict[str, str], proxy: str | None) -> None:
    assert route(url, env).proxy == proxy


@pytest.mark.parametrize(
    ("entry", "host", "covers"),
    [
        pytest.param("*", "a.test", True, id="all"),
        pytest.param("a.test", "x.a.test", True, id="suffix-of-labels"),
        pytest.param("a.test", "xa.test", False, id="not-part-of-a-label"),
        pytest.param(".a.test", "a.test", True, id="leading-dot"),
        pytest.param("10.0.0.0/8", "10.2.3.4", True, id="network"),
        pytest.param("10.2.3.4:8000", "10.2.3.4", False, id="with-a-port"),
        pytest.param("*localhost*", "localhost", False, id="stars-match-nothing"),
        pytest.param("::1", "[::1]", True, id="ipv6"),
    ],
)
def test_an_entry_of_no_proxy(entry: str, host: str, covers: bool) -> None:
    assert entry_matches(entry, host) is covers


@pytest.mark.parametrize("entry", ["http://a.test", "a.test:80", "*a*", "a b", "127.*", "a/b", "127.0.0.1:8000"])
def test_a_form_that_not_every_client_matches(entry: str) -> None:
    assert is_malformed(entry)


@pytest.mark.parametrize(
    "entry", ["*", "a.test", ".a.test", "*.a.test", "10.0.0.0/8", "::1", "[::1]", "<local>", "my-host"]
)
def test_a_good_form(entry: str) -> None:
    assert not is_malformed(entry)
