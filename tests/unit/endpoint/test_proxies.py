"""Which proxy a URL goes through, by the rules that clients share."""

from __future__ import annotations

import pytest

from wizard.endpoint.proxies import entry_matches, route

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
    ("entry", "host", "port", "covers"),
    [
        pytest.param("*", "a.test", 80, True, id="all"),
        pytest.param("a.test", "x.a.test", 80, True, id="suffix-of-labels"),
        pytest.param("a.test", "xa.test", 80, False, id="not-part-of-a-label"),
        pytest.param(".a.test", "a.test", 80, True, id="leading-dot"),
        pytest.param("10.0.0.0/8", "10.2.3.4", 80, True, id="network"),
        pytest.param("10.2.3.4:8000", "10.2.3.4", 8000, True, id="port"),
        pytest.param("10.2.3.4:8000", "10.2.3.4", 80, False, id="other-port"),
        pytest.param("*localhost*", "localhost", 80, False, id="stars-match-nothing"),
        pytest.param("::1", "[::1]", 80, True, id="ipv6"),
    ],
)
def test_an_entry_of_no_proxy(entry: str, host: str, port: int, covers: bool) -> None:
    assert entry_matches(entry, host, port) is covers
