"""Forms of a base URL. Which form is right depends on the client: see docs/explanation/url-forms.md."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import quote, urlsplit, urlunsplit

from wizard.i18n import t
from wizard.problems import ProblemError, usage_error

# What people paste instead of a base URL, longest first.
_ENDPOINT_SUFFIXES = (
    "/messages/count_tokens",
    "/chat/completions",
    "/completions",
    "/responses",
    "/messages",
    "/embeddings",
    "/models",
)
_VERSION_SEGMENT = re.compile(r"/v\d+(?:beta\d*|alpha\d*)?$")


def tidy(url: str) -> str:
    """The URL without blanks, quotes, query, fragment and trailing slashes; a missing scheme becomes http for
    loopback and private names, https elsewhere."""
    url = url.strip().strip("\"'`<>").strip()
    if "://" not in url:
        host = re.split(r"[:/]", url, maxsplit=1)[0]
        local = host in ("localhost", "host.docker.internal") or re.match(
            r"(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)", host
        )
        url = ("http://" if local or url.startswith("[::1]") else "https://") + url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme.lower(), parts.netloc, re.sub(r"/+$", "", parts.path), "", ""))


def check_base_url(url: str) -> str:
    """The URL tidied, when a request can be sent to it: a host of other letters in its ASCII form, other letters of the
    path percent-encoded, and no slash twice but in a URL inside, since not every client does that by itself.

    Raises a usage problem (`base-url-invalid`): no http(s), no host, a host or port that does not parse, blanks or
    control characters, bytes that are no text, or a password inside, which would be shown wherever the URL is.
    """
    shown = url.encode("unicode_escape").decode()[:200]
    if not url.strip():
        raise _no_url(t("The base URL is empty."))
    if any(not character.isprintable() or character.isspace() for character in url.strip()):
        raise _no_url(t("`{url}` is no URL.", url=shown))
    try:
        parts = urlsplit(tidy(url))
        host, port = parts.hostname or "", parts.port
        if parts.netloc.rpartition("@")[2].startswith("["):
            ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        raise _no_url(t("`{url}` is no URL.", url=shown)) from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise _no_url(t("`{url}` is no URL.", url=shown))
    if "@" in parts.netloc:
        raise _no_url(
            t("A base URL with a user or a password inside is not taken: it would be shown wherever the URL is.")
        )
    netloc = parts.netloc
    if not netloc.isascii():
        try:
            netloc = host.encode("idna").decode() + (f":{port}" if port is not None else "")
        except UnicodeError:
            raise _no_url(t("`{url}` is no URL.", url=shown)) from None
    # After a colon the slashes belong to a URL inside, as of proxies that are told where to go by their path.
    path = quote(re.sub(r"(?<!:)/{2,}", "/", parts.path).rstrip("/"), safe="/%:@!$&'()*+,;=~")
    return urlunsplit((parts.scheme, netloc, path, "", ""))


def query_names(url: str) -> tuple[str, ...]:
    """The names in a URL's query, which is no part of a base URL; `…` for what may be a key and no name."""
    pairs = urlsplit(url.strip().strip("\"'`<>")).query.split("&")
    return tuple(
        name if re.fullmatch(r"[A-Za-z][\w-]{0,23}=", name + equals) else "…"
        for name, equals, _ in (pair.partition("=") for pair in pairs if pair)
    )


def _no_url(what: str) -> ProblemError:
    return usage_error(
        "base-url-invalid", what, t("Example: http://127.0.0.1:8000/v1; a key goes into LLM_SETUP_API_KEY.")
    )


def pasted_endpoint(url: str) -> str | None:
    """The suffix such as `/chat/completions` when a full endpoint was given in place of a base URL, else None."""
    path = urlsplit(tidy(url)).path
    return next((suffix for suffix in _ENDPOINT_SUFFIXES if path.endswith(suffix)), None)


def without_endpoint(url: str) -> str:
    """The base URL inside a pasted full endpoint."""
    suffix = pasted_endpoint(url)
    return tidy(url)[: -len(suffix)] if suffix else tidy(url)


def ends_in_version(url: str) -> bool:
    """Whether the last path segment is an API version (`/v1`, `/v4`, `/v1beta`)."""
    return bool(_VERSION_SEGMENT.search(urlsplit(url).path.rstrip("/")))


def without_version(url: str) -> str:
    """The root below which `/v1` lies: `http://h:1/v1/` -> `http://h:1`."""
    return _VERSION_SEGMENT.sub("", tidy(url))


def with_version(url: str) -> str:
    """The same with `/v1` at its end, once."""
    url = tidy(url)
    return url if ends_in_version(url) else url + "/v1"
