"""Forms of a base URL."""

import pytest

from wizard.endpoint import urls
from wizard.problems import ProblemError


@pytest.mark.parametrize(
    ("given", "tidy"),
    [
        pytest.param(" http://h:8000/v1/ \n", "http://h:8000/v1", id="blanks-and-slash"),
        pytest.param('"https://h/v1"', "https://h/v1", id="quotes"),
        pytest.param("127.0.0.1:8000", "http://127.0.0.1:8000", id="loopback-without-scheme"),
        pytest.param("taotoken.net/api", "https://taotoken.net/api", id="name-without-scheme"),
        pytest.param("HTTP://h/v1?x=1#y", "http://h/v1", id="query-and-fragment"),
    ],
)
def test_a_url_is_tidied(given: str, tidy: str) -> None:
    assert urls.tidy(given) == tidy


@pytest.mark.parametrize(
    ("url", "with_v1", "without_v1"),
    [
        pytest.param("http://h:8000", "http://h:8000/v1", "http://h:8000", id="root"),
        pytest.param("http://h:8000/v1/", "http://h:8000/v1", "http://h:8000", id="v1"),
        pytest.param("https://g/api", "https://g/api/v1", "https://g/api", id="sub-path"),
        pytest.param("https://g/api/paas/v4", "https://g/api/paas/v4", "https://g/api/paas", id="another-version"),
    ],
)
def test_the_version_is_added_and_removed_once(url: str, with_v1: str, without_v1: str) -> None:
    assert urls.with_version(url) == with_v1
    assert urls.with_version(urls.with_version(url)) == with_v1
    assert urls.without_version(url) == without_v1


@pytest.mark.parametrize(
    ("url", "base"),
    [
        pytest.param("http://h/v1/chat/completions", "http://h/v1", id="chat"),
        pytest.param("http://h/v1/messages/", "http://h/v1", id="messages"),
        pytest.param("http://h/v1", "http://h/v1", id="already-a-base"),
    ],
)
def test_a_pasted_endpoint_gives_its_base(url: str, base: str) -> None:
    assert urls.without_endpoint(url) == base


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("", id="empty"),
        pytest.param("ftp://h/v1", id="ftp"),
        pytest.param("file:///etc/passwd", id="file"),
        pytest.param("http://", id="no-host"),
        pytest.param("http://[::1", id="half-an-address"),
        pytest.param("http://[zz]:1", id="no-address"),
        pytest.param("localhost:99999", id="port-too-large"),
        pytest.param("http://h:abc", id="port-of-letters"),
        pytest.param("http://a b/v1", id="blank"),
        pytest.param("http://h/\x1b]0;x\x07", id="escape"),
        pytest.param("http://\udcff/", id="not-text"),
        pytest.param("http://user:hunter2pass@h:1", id="password"),
    ],
)
def test_what_cannot_be_asked_is_wrong_usage_and_shows_no_password(url: str) -> None:
    with pytest.raises(ProblemError) as raised:
        urls.check_base_url(url)
    assert raised.value.problem.code == "base-url-invalid"
    assert raised.value.exit_code == 2
    assert "hunter2pass" not in str(raised.value.problem)
    str(raised.value.problem).encode()


@pytest.mark.parametrize("url", ["http://[::1]:8000/v1", "https://h/v1/", "127.0.0.1:8000", "http://h:1/v1?x=1"])
def test_what_can_be_asked_is_tidied(url: str) -> None:
    assert urls.check_base_url(url) == urls.tidy(url)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        pytest.param("http://münchen.example:81/v1", "http://xn--mnchen-3ya.example:81/v1", id="host-of-other-letters"),
        pytest.param("http://服务器:8000/v1", "http://xn--zfru1ggxt:8000/v1", id="last-label-of-other-letters"),
        pytest.param("http://例子.中国/v1", "http://xn--fsqu00a.xn--fiqs8s/v1", id="no-port"),
        pytest.param("https://p/https://api.openai.com//v1", "https://p/https://api.openai.com/v1", id="url-inside"),
        pytest.param("https://h/路/v1", "https://h/%E8%B7%AF/v1", id="path-of-other-letters"),
        pytest.param("https://h/%E8%B7%AF/v1", "https://h/%E8%B7%AF/v1", id="encoded-once"),
        pytest.param("http://h//v1//", "http://h/v1", id="slashes-twice"),
    ],
)
def test_a_url_is_in_the_form_that_every_client_sends(given: str, sent: str) -> None:
    assert urls.check_base_url(given) == sent


@pytest.mark.parametrize(
    ("url", "names"),
    [
        pytest.param("https://h/v1?api-version=2024-10-21&x=1", ("api-version", "x"), id="names"),
        pytest.param("https://h/v1?sk-0123456789abcdef", ("…",), id="a-key-alone"),
        pytest.param("https://h/v1", (), id="none"),
    ],
)
def test_of_a_query_only_names_are_shown(url: str, names: tuple[str, ...]) -> None:
    assert urls.query_names(url) == names
