"""Whether the base URL leads to the API, in the form that this client needs."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from wizard.doctor.bodies import excerpt, read_body
from wizard.doctor.causes import found
from wizard.doctor.checks.way import is_local
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.judging import advise, evidence, target_of, variation
from wizard.doctor.listing import only_listed, url_by_list
from wizard.doctor.observations import Observations, Target
from wizard.doctor.probes import url_of
from wizard.doctor.reach import Reach, Seen, judge_models, judge_reach, judged
from wizard.endpoint.urls import pasted_endpoint, without_endpoint
from wizard.i18n import t
from wizard.problems import Problem

_AZURE = re.compile(r"\.(?:openai\.azure\.com|cognitiveservices\.azure\.com|services\.ai\.azure\.com)$")
# Path segments that vendors use for an API; any other is somebody's own prefix.
_API_WORDS = re.compile(
    r"^(?:v\d+\w*|apis?|openai|anthropic|claude|chat|completions?|responses|messages|models?|compatible-mode|paas|"
    r"engines?|deployments?|serving-endpoints)$",
    re.I,
)


def azure_form(seen: Observations) -> Verdict:
    """Whether a URL of Azure's has one of Azure's two forms."""
    target = target_of(seen)
    try:
        parts = urlsplit(target.base_url.strip())
    except ValueError:
        return None
    path = parts.path.rstrip("/")
    if not _AZURE.search((parts.hostname or "").lower()):
        return _behind_another_name(seen, target, path)
    if (
        path.endswith("/openai/v1")
        or "/openai/v1/" in path + "/"
        or (target.wire == "messages" and path.endswith("/anthropic"))
    ):
        return None
    if "/openai/deployments/" in path and "api-version=" in parts.query:
        return None
    resource = f"{parts.scheme}://{parts.hostname}"
    return found(
        "azure-deployment-path",
        t("`{url}` is not a form that Azure serves.", url=target.base_url),
        evidence(seen.exchange("main")),
        **_ask_at(target, f"{resource}/openai/v1"),
    )


def _behind_another_name(seen: Observations, target: Target, path: str) -> Problem | None:
    """Azure's paths on another host: its API management, or a proxy in front of it."""
    main = judge_reach(seen).main
    if "/openai/deployments/" not in path + "/" or main is None or main.grade not in ("absent", "page"):
        return None
    base = target.base_url.strip().partition("/openai/deployments/")[0]
    return found(
        "azure-deployment-path",
        t("`{url}` has Azure's form, and nothing is served there.", url=target.base_url),
        evidence(main),
        **_ask_at(target, f"{base}/openai/v1"),
    )


def form_of_url(seen: Observations) -> Verdict:
    """Whether the client's own request meets the API, and if not, which form of the URL would."""
    target = target_of(seen)
    if seen.offline:
        told = _by_form_alone(target) if seen.explicit else None
        return told or Unseen(t("nothing was sent (--offline)"))
    if only_listed(seen):
        return url_by_list(seen)
    reach = judge_reach(seen)
    if reach.main is None:
        return Unseen(t("the question was not asked"))
    if reach.main.grade == "none":
        return Unseen(t("nothing answered at {url}", url=target.base_url))
    if reach.main.family in ("auth", "key-format"):
        # A server that looks at the key first says 401 at every path; a wrong form is still to be read in the text.
        return _by_form_alone(target) or _double_slash(seen, reach)
    if reach.main.grade not in ("absent", "page"):
        return _double_slash(seen, reach)
    if reach.base is not None:
        return _found_elsewhere(seen, reach, target)
    return _nowhere(seen, reach, target)


def _by_form_alone(target: Target) -> Verdict:
    """What the text of a URL tells without asking: only what no server could make right."""
    suffix = pasted_endpoint(target.base_url)
    if suffix and suffix != "/models":
        return found(
            "base-url-full-endpoint",
            t("The base URL ends in `{suffix}`, which clients add themselves.", suffix=suffix),
            **_ask_at(target, without_endpoint(target.base_url)),
        )
    bare = target.base_url.strip().rstrip("/")
    if bare.endswith("/v1/v1") or (target.wire == "messages" and bare.endswith("/v1")):
        return found(
            "base-url-extra-v1",
            t(
                "The base URL ends in `/v1`, and the client adds `{path}`.",
                path=urlsplit(url_of("x:", target.wire)).path,
            ),
            **_ask_at(target, bare.removesuffix("/v1")),
        )
    return None


def _ask_at(target: Target, base: str) -> dict[str, Any]:
    """What mends a wrong base URL, as arguments of `found`."""
    text, commands = advise(target, base, target.model)
    return {"fix": text, "commands": commands}


def _found_elsewhere(seen: Observations, reach: Reach, target: Target) -> Problem:
    base = reach.base
    assert base is not None and reach.main is not None
    asked = url_of(target.base_url.strip(), target.wire)
    saw = (evidence(reach.main), evidence(reach.best), *_openapi_evidence(seen))
    configured = target.base_url.strip().rstrip("/")
    mended = _ask_at(target, base)
    if reach.kind == "stripped" or (pasted_endpoint(configured) and without_endpoint(configured).startswith(base)):
        suffix = pasted_endpoint(configured) or ""
        return found(
            "base-url-full-endpoint",
            t(
                "The base URL already ends in `{suffix}`, so the client asks for `{asked}`.",
                suffix=suffix,
                asked=urlsplit(asked).path,
            ),
            *saw,
            **mended,
            automatic=True,
        )
    if base == configured + "/v1":
        return found(
            "base-url-missing-v1",
            t(
                "The base URL lacks `/v1`: `{asked}` is not served, `{base}` is the API.",
                asked=urlsplit(asked).path,
                base=base,
            ),
            *saw,
            **mended,
            automatic=True,
        )
    if configured.startswith(base) and re.fullmatch(r"(?:/v1)+", configured[len(base) :]):
        return found(
            "base-url-extra-v1",
            t("The base URL has one `/v1` too many: the client asks for `{asked}`.", asked=urlsplit(asked).path),
            *saw,
            **mended,
            automatic=True,
        )
    if reach.kind in ("double-prefix", "no-prefix", "short-prefix") and not _is_api_path(configured, base):
        return found(
            "proxy-prefix-mismatch",
            t("The API lies at `{base}`, not at `{configured}`.", base=base, configured=configured),
            *saw,
            **mended,
        )
    return found(
        "base-url-wrong-path",
        t("The API lies at `{base}`, not at `{configured}`.", base=base, configured=configured),
        *saw,
        **mended,
        automatic=True,
    )


def _is_api_path(configured: str, base: str) -> bool:
    """Whether the configured prefix is words of APIs only, so that it is a wrong path rather than a proxy's prefix."""
    segments = [segment for segment in urlsplit(configured).path.split("/") if segment]
    return all(_API_WORDS.match(segment) for segment in segments)


def _nowhere(seen: Observations, reach: Reach, target: Target) -> Verdict:
    main = reach.main
    assert main is not None
    early = _prefix_shift(seen) or _silent(main)
    if early is not None:
        return early
    other = next(
        (
            reply
            for name in ("other.chat", "other.chat.root")
            if (reply := variation_chat(seen, name)) is not None and reply.grade in ("works", "answers")
        ),
        None,
    )
    listed = judge_models(seen.exchange("models")) is not None
    if target.wire == "responses" and (other is not None or listed):
        return found(
            "endpoint-unsupported-responses",
            t("The server has no `/responses`, which is all that {client} speaks.", client=target.client or "Codex"),
            evidence(main),
            evidence(other),
        )
    if target.wire == "messages" and (other is not None or reach.models is not None):
        return found(
            "endpoint-unsupported-messages",
            t(
                "The server has no `/v1/messages`, which is all that {client} speaks.",
                client=target.client or "Claude Code",
            ),
            evidence(main),
            evidence(other or seen.exchange("models")),
        )
    redirected = _redirected(main)
    if redirected is not None:
        return redirected
    routes = _routes(seen)
    if routes:
        return found(
            "wrong-endpoint-path",
            t("The server does not serve `{path}`.", path=urlsplit(main.exchange.request.url).path),
            evidence(main),
            *_openapi_evidence(seen),
        )
    a_page = main.grade == "page" or (main.body is not None and main.body.form in ("html", "json-string", "text"))
    if a_page and main.status < 400:
        return found(
            "html-instead-of-json",
            t(
                "`{url}` answers with {what}, not with the API's JSON.",
                url=main.exchange.request.url,
                what=_what(main.body.form if main.body else ""),
            ),
            evidence(main),
        )
    if reach.listed_at is not None and reach.listed_at.rstrip("/") == target.base_url.strip().rstrip("/") + "/v1":
        return found(
            "base-url-missing-v1",
            t("The base URL lacks `/v1`: the list of models is at `{base}`.", base=reach.listed_at),
            evidence(main),
            evidence(seen.exchange("models.v1")),
            **_ask_at(target, reach.listed_at),
            automatic=True,
        )
    if reach.listed_at is not None and reach.listed_at != target.base_url.strip():
        return found(
            "base-url-wrong-path",
            t(
                "Nothing is served at `{path}`; a list of models is at `{base}`.",
                path=urlsplit(main.exchange.request.url).path,
                base=reach.listed_at,
            ),
            evidence(main),
            **_ask_at(target, reach.listed_at),
        )
    if main.status < 400 and main.body is not None and main.body.error is not None:
        return found(
            "error-in-200-body",
            t("Status 200 with an error inside: {text}", text=excerpt(main.text, 140)),
            evidence(main),
        )
    return found(
        "wrong-endpoint-path"
        if listed or is_local(urlsplit(target.base_url).hostname or "")
        else "base-url-wrong-path",
        t(
            "The server does not serve `{path}`, nor any other path that is known.",
            path=urlsplit(main.exchange.request.url).path,
        ),
        evidence(main),
        evidence(seen.exchange("models")),
    )


def variation_chat(seen: Observations, probe: str) -> Seen | None:
    """A reply to a chat request, whatever the client's own protocol is."""
    exchange = seen.exchange(probe)
    return judged(seen, exchange, "chat") if exchange else None


def _what(form: str) -> str:
    return {"json-string": t("a bare text"), "text": t("plain text")}.get(form, t("a web page"))


def _redirected(main: Seen) -> Problem | None:
    location = main.reply.header("location") if main.reply and 300 <= main.status < 400 else ""
    if not location:
        return None
    return found(
        "base-url-redirects",
        t("`{url}` redirects to `{location}`.", url=main.exchange.request.url, location=location),
        evidence(main),
    )


def _silent(main: Seen) -> Problem | None:
    """Nothing in the body, or a page that only repeats the status."""
    if main.status < 300 and main.body and main.body.form == "empty":
        return found(
            "broken-response-body", t("Status {status}, and the body is empty.", status=main.status), evidence(main)
        )
    if main.status == 400 and not (main.body and main.body.error):
        return found("unknown-400-no-body", t("The server answers 400 and does not say why."), evidence(main))
    return None


def _prefix_shift(seen: Observations) -> Problem | None:
    """The gateway's own pages lie below its prefix twice: it adds the prefix that the proxy did not take off."""
    double = seen.reply("ui.double") or seen.reply("health.double")
    once = seen.reply("ui.prefix")
    if double is None or double.status >= 400 or (once is not None and once.status < 400):
        return None
    exchange = seen.exchange("ui.double")
    return found(
        "proxy-prefix-mismatch",
        t("The gateway answers below its prefix twice: proxy and gateway both add it."),
        evidence(seen.exchange("main")),
        evidence(exchange),
        fix=t("Let the proxy strip the prefix, or unset the gateway's root path (LiteLLM: `SERVER_ROOT_PATH`)."),
    )


def _routes(seen: Observations) -> tuple[str, ...]:
    reply = seen.reply("openapi")
    value = read_body(reply).value if reply is not None and reply.status == 200 else None
    paths = value.get("paths") if isinstance(value, dict) else None
    return tuple(str(path) for path in paths)[:200] if isinstance(paths, dict) else ()


def _openapi_evidence(seen: Observations) -> tuple[str, ...]:
    routes = _routes(seen)
    telling = [r for r in routes if re.search(r"chat|completion|responses|messages|generate|models", r)] or list(routes)
    return (t("/openapi.json lists: {routes}", routes=", ".join(telling[:8])),) if routes else ()


def _double_slash(seen: Observations, reach: Reach) -> Verdict:
    target = target_of(seen)
    slashed = seen.exchange("main.slash")
    if slashed is None or reach.main is None or reach.main.grade != "works":
        return None
    slash = variation(seen, "main.slash")
    if slash is None or slash.grade not in ("absent", "page"):
        return None
    return found(
        "base-url-trailing-slash",
        t(
            "The base URL ends in `/`: a client that joins texts asks for `{path}`.",
            path=urlsplit(slashed.request.url).path,
        ),
        evidence(slash),
        evidence(reach.main),
        severity="warning",
        **_ask_at(target, target.base_url.strip().rstrip("/")),
        automatic=True,
    )


CHECKS = (
    Check("azure-url", "An Azure URL has Azure's form", azure_form, "target"),
    Check("url-form", "The base URL has the form that the client needs", form_of_url, "target", vital=True),
)
