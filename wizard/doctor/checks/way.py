"""The way to the server: URL, proxies, names, addresses, TLS."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from wizard.doctor.causes import found
from wizard.doctor.client_files import find_files
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.judging import evidence, target_of
from wizard.doctor.observations import AddressResult, Exchange, NetworkFacts, Observations, ServerSeen
from wizard.doctor.reach import judge_models, judge_reach
from wizard.endpoint.proxies import is_malformed, no_proxy_entries
from wizard.i18n import t
from wizard.problems import Problem

_LOOPBACK_NAMES = ("localhost", "ip6-localhost", "localhost.localdomain")


def is_loopback(host: str) -> bool:
    """Whether the name or address means the machine itself."""
    host = host.strip("[]").lower()
    if host in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(host: str) -> bool:
    """Whether the host is this machine, or in a private network: none that a proxy for the internet can reach."""
    host = host.strip("[]").lower()
    if is_loopback(host) or host in ("host.docker.internal", "0.0.0.0") or ("." not in host and ":" not in host):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host.endswith((".local", ".internal", ".lan", ".home.arpa", ".intranet", ".corp"))


def base_url_parses(seen: Observations) -> Verdict:
    """Whether the base URL is one at all."""
    target = target_of(seen)
    url = target.base_url.strip()
    try:
        parts = urlsplit(url)
        _ = parts.port
        wrong = parts.scheme not in ("http", "https") or not parts.hostname or bool(re.search(r"\s", url))
    except ValueError:
        wrong = True
    if not wrong:
        return None
    return found(
        "base-url-invalid",
        t("The base URL `{url}` is no URL.", url=target.base_url),
        t("read from {source}", source=target.source) if target.source else "",
    )


def proxy_route(seen: Observations) -> Verdict:
    """Whether a proxy stands between the client and a server that it can only reach without."""
    network, target = seen.network, target_of(seen)
    if seen.offline or network is None:
        return Unseen(t("nothing was sent (--offline)") if seen.offline else t("the way was not looked at"))
    if network.proxy.proxy is None:
        return None
    reach = judge_reach(seen)
    through, past = seen.exchange("main"), seen.exchange("main.direct")
    listed_past = seen.exchange("models.direct")
    saw = (
        t(
            "{variable}={proxy} applies to {url}",
            variable=network.proxy.variable,
            proxy=network.proxy.proxy,
            url=target.base_url,
        ),
        evidence(through or seen.exchange("models")),
        evidence(past or listed_past),
    )
    if reach.direct:
        return _caught(seen, network, saw)
    failed = [e for e in (through, seen.exchange("models")) if e is not None and e.failure is not None]
    if failed and past is not None and past.failure is not None:
        if network.reachable is False and is_local(network.host):
            return None  # The server is down as well; the proxy may be caught by a later run.
        return found(
            "proxy-unreachable",
            t("The request goes through the proxy {proxy}, and fails there.", proxy=network.proxy.proxy),
            *saw,
        )
    return None


def _caught(seen: Observations, network: NetworkFacts, saw: tuple[str, ...]) -> Problem:
    entries = no_proxy_entries(dict(seen.environment))
    meant = [entry for entry in entries if is_malformed(entry) and _means(entry, network.host)]
    exports = (
        f"export NO_PROXY=localhost,127.0.0.1,::1,{network.host}",
        f"export no_proxy=localhost,127.0.0.1,::1,{network.host}",
    )
    if meant:
        return found(
            "no-proxy-malformed",
            t("NO_PROXY names `{host}` in a form that matches nothing: `{entry}`.", host=network.host, entry=meant[0]),
            *saw,
            t("NO_PROXY entries: {entries}", entries=", ".join(entries)),
            commands=exports,
        )
    return found(
        "proxy-env-captures-local",
        t("The proxy {proxy} catches requests to {host}.", proxy=network.proxy.proxy, host=network.host),
        *saw,
        commands=exports,
    )


def _means(entry: str, host: str) -> bool:
    """Whether a NO_PROXY entry was meant for the host: its text holds the host, or any loopback for a loopback."""
    if host in entry:
        return True
    return is_loopback(host) and any(name in entry for name in ("localhost", "127.", "::1"))


def connection(seen: Observations) -> Verdict:
    """Whether a connection comes about, and if not, whose fault it is."""
    if seen.offline:
        return Unseen(t("nothing was sent (--offline)"))
    network, target = seen.network, target_of(seen)
    if network is None:
        return Unseen(t("the way was not looked at"), unknown=True)
    answered = [exchange for exchange in seen.exchanges if exchange.reply is not None]
    if network.reachable or answered:
        return _refused_first(network)
    if network.resolve_error:
        return _unresolved(seen, network)
    results = tuple(
        t("{address} port {port}: {outcome}", address=r.address, port=r.port, outcome=r.outcome) for r in network.tcp
    )
    # A server of ours with that port was here, whatever holds this machine: what it lacks is to run.
    if _own(seen, network) is not None:
        return _down(seen, network, results)
    if is_loopback(network.host) and seen.context.in_container:
        # Where the doctor sits in the container itself, its own servers are in there with the client.
        running = None if seen.context.assumed else _elsewhere(seen, None)
        return _down(seen, network, results) if running else _in_container(network, results)
    open_elsewhere = [(host, result) for host, result in network.elsewhere if result.outcome == "open"]
    if is_loopback(network.host):
        found_there = [row for row in open_elsewhere if not is_loopback(row[0])]
        if found_there and seen.context.in_wsl:
            host = found_there[0][0]
            return found(
                "wsl-network",
                t(
                    "Port {port} is refused at {host}, and answers at {other}.",
                    port=network.port,
                    host=network.host,
                    other=host,
                ),
                *results,
                commands=(f"llm-setup doctor --base-url {target.base_url.replace(network.host, host, 1)}",),
            )
        if found_there:
            host = found_there[0][0]
            return found(
                "server-not-ready",
                t(
                    "Nothing listens on {host} port {port}; something does at {other}.",
                    host=network.host,
                    port=network.port,
                    other=host,
                ),
                *results,
                fix=t("Use `{other}` in the base URL, or start the server with `--host 0.0.0.0`.", other=host),
            )
    loop = [row for row in open_elsewhere if is_loopback(row[0])]
    if loop and not is_loopback(network.host):
        return found(
            "server-bound-loopback",
            t(
                "Port {port} answers at {loop} and is refused at {host}.",
                port=network.port,
                loop=loop[0][0],
                host=network.host,
            ),
            *results,
        )
    if seen.context.in_wsl and is_loopback(network.host):
        return found(
            "wsl-network",
            t("Nothing listens on {host} port {port} inside WSL.", host=network.host, port=network.port),
            *results,
        )
    return _down(seen, network, results)


def _refused_first(network: NetworkFacts) -> Verdict:
    """One address of the name refuses while another accepts: clients that try only the first fail."""
    dead = [r for r in network.tcp if r.outcome != "open"]
    if not dead or len(network.tcp) < 2 or network.tcp[0].outcome == "open":
        return None
    alive = next((r for r in network.tcp if r.outcome == "open"), None)
    if alive is None or network.host != "localhost":
        return None
    return found(
        "localhost-ipv6",
        t("`localhost` is {dead} first, which is refused; {alive} accepts.", dead=dead[0].address, alive=alive.address),
        severity="warning",
    )


def _unresolved(seen: Observations, network: NetworkFacts) -> Problem:
    if network.host == "host.docker.internal" and seen.context.in_container:
        return found(
            "wrong-host-in-container",
            t("`host.docker.internal` does not resolve in this container."),
            network.resolve_error,
            fix=t("Start the container with `--add-host=host.docker.internal:host-gateway`."),
        )
    return found(
        "name-not-resolved",
        t("The name `{host}` does not resolve.", host=network.host),
        network.resolve_error,
    )


def _in_container(network: NetworkFacts, results: tuple[str, ...]) -> Problem:
    better = next((host for host, r in network.elsewhere if r.outcome == "open"), "host.docker.internal")
    return found(
        "wrong-host-in-container",
        t(
            "`{host}` is this container itself, and nothing listens there on port {port}.",
            host=network.host,
            port=network.port,
        ),
        *results,
        fix=t(
            "If the server belongs into this container, start it, or mend the port. If it runs outside, use `{other}` "
            "in place of `{host}`, and let it listen on `0.0.0.0`.",
            other=better,
            host=network.host,
        ),
    )


def _own(seen: Observations, network: NetworkFacts) -> ServerSeen | None:
    """The server that llm-setup started at the target's address, whether it lives or not."""
    return next((s for s in seen.servers if s.port == network.port and is_loopback(network.host)), None)


def _elsewhere(seen: Observations, own: ServerSeen | None) -> ServerSeen | None:
    """A server of llm-setup that runs, but for `own`."""
    return next((s for s in seen.servers if s is not own and s.alive and s.ready), None)


def _stopped(own: ServerSeen, *saw: str) -> Problem:
    commands = (f"llm-setup logs {own.name}", f"llm-setup serve --name {own.name}")
    return found(
        "server-not-ready",
        t("The server `{name}`, which llm-setup started, is not running.", name=own.name),
        *saw,
        fix=t("Start it again."),
        # Without its log nothing is known of it but its profile: it was stopped, and init starts what that names.
        commands=commands if own.log else ("llm-setup init --yes",),
    )


def _down(seen: Observations, network: NetworkFacts, results: tuple[str, ...]) -> Problem:
    own = _own(seen, network)
    if own is not None and own.alive and not own.ready:
        return found(
            "server-not-ready",
            t(
                "The server `{name}` is still starting; nothing listens on port {port} yet.",
                name=own.name,
                port=network.port,
            ),
            *results,
            own.log,
            commands=(f"llm-setup logs {own.name} --follow",),
        )
    other = _elsewhere(seen, own)
    if other is not None and is_loopback(network.host):
        return found(
            "stale-profile",
            t(
                "Nothing listens on port {port}; the server `{name}` runs on port {other}.",
                port=network.port,
                name=other.name,
                other=other.port,
            ),
            *results,
            commands=(f"llm-setup use {other.name}",),
        )
    if own is not None and not own.alive:
        return _stopped(own, *results)
    silent = [r for r in network.tcp if r.outcome == "timeout"]
    if silent and len(silent) == len(network.tcp):
        return found(
            "server-unreachable",
            t(
                "{host} does not answer on port {port}: no reply within {seconds:.0f} s.",
                host=network.host,
                port=network.port,
                seconds=_slowest(network.tcp),
            ),
            *results,
            why=t(
                "Packets get no answer at all: a firewall drops them, or the address is nobody's. "
                "A stopped server would refuse at once."
            ),
            fix=t("Check the address, and that the firewall lets port {port} through.", port=network.port),
        )
    commands: tuple[str, ...] = ()
    if own is not None:
        commands = (f"llm-setup logs {own.name}",)
    elif is_loopback(network.host):
        commands = ("llm-setup status", "llm-setup serve")
    return found(
        "server-not-ready",
        t(
            "Nothing listens at {host} port {port}: the server is not up, or not yet.",
            host=network.host,
            port=network.port,
        ),
        *results,
        commands=commands,
    )


def _slowest(results: tuple[AddressResult, ...]) -> float:
    return max((r.elapsed_s for r in results), default=0.0)


def tls(seen: Observations) -> Verdict:
    """Whether TLS works where it is meant, and whether it is meant where it works."""
    network = seen.network
    if seen.offline or network is None:
        return Unseen(t("nothing was sent (--offline)") if seen.offline else t("the way was not looked at"))
    failure = next((e.failure for e in seen.exchanges if e.failure is not None and e.probe in ("main", "models")), None)
    if network.scheme == "http":
        flipped = seen.exchange("models.scheme")
        if flipped is not None and (
            flipped.reply is not None or (flipped.failure and "certificate" in flipped.failure.text.lower())
        ):
            return found(
                "plain-http-on-tls-port",
                t("Port {port} speaks TLS, and the URL says `http://`.", port=network.port),
                evidence(seen.exchange("models")),
                evidence(flipped),
            )
        return _said_plain_to_tls(seen, network)
    facts = network.tls
    if facts is None:
        return Unseen(t("no connection, so no handshake"))
    if facts.plain_http:
        return found(
            "tls-on-plain-http-port",
            t("Port {port} speaks plain HTTP, and the URL says `https://`.", port=network.port),
            facts.error,
            evidence(seen.exchange("models.scheme")),
        )
    if facts.system_trusts and facts.bundle_trusts is not False:
        return None
    if facts.accepted_unverified:
        code = "tls-untrusted-ca" if _is_trust(facts.error) else "tls-handshake-failed"
        if facts.system_trusts or (facts.bundle_trusts and failure is None):
            return found(
                code,
                t("One trust store accepts the certificate of {host}, another does not.", host=network.host),
                facts.error,
                severity="warning",
            )
        return found(code, t("The certificate of {host} is not trusted here.", host=network.host), facts.error)
    return found("tls-handshake-failed", t("The TLS handshake with {host} fails.", host=network.host), facts.error)


def _said_plain_to_tls(seen: Observations, network: NetworkFacts) -> Verdict:
    exchange = seen.exchange("main") or seen.exchange("models")
    text = exchange.reply.text.lower() if exchange and exchange.reply and exchange.reply.status == 400 else ""
    if "plain http request was sent to https port" in text or "client sent an http request to an https server" in text:
        return found(
            "plain-http-on-tls-port",
            t("Port {port} speaks TLS, and the URL says `http://`.", port=network.port),
            evidence(exchange),
        )
    return None


def _is_trust(error: str) -> bool:
    return bool(
        re.search(r"self.?signed|issuer|unable to get|unknown ca|not trusted|verify failed", error, re.I)
    ) and not ("expired" in error or "mismatch" in error.lower() or "doesn't match" in error)


def slow_answer(seen: Observations) -> Verdict:
    """Whether a connection opens and no answer comes."""
    if seen.offline:
        return Unseen(t("nothing was sent (--offline)"))
    exchange = seen.exchange("main") or seen.exchange("models")
    if exchange is None or exchange.failure is None or seen.network is None or not seen.network.reachable:
        return None
    own = _own(seen, seen.network)
    if own is not None and not own.alive and not any(e.reply is not None for e in seen.exchanges):
        port = seen.network.port
        return _stopped(own, t("Another program holds port {port} and does not answer.", port=port), evidence(exchange))
    if exchange.failure.kind != "timeout":
        return None
    healthy = [e for e in seen.exchanges if e.probe in ("health", "models") and e.reply is not None]
    listed = judge_models(seen.exchange("models"))
    return found(
        "upstream-hangs",
        t("The connection opens, and no answer came within {seconds:.0f} s.", seconds=exchange.failure.elapsed_s),
        evidence(exchange),
        *(evidence(e) for e in healthy),
        why=""
        if not listed
        else t(
            "The server's front answers (its list of models came), the model does not: its engine is busy or stuck."
        ),
    )


def client_patience(seen: Observations) -> Verdict:
    """Whether the client waits as long as the server was seen to need."""
    patience = _patience(seen)
    if patience is None:
        return Unseen(t("no time-out of this client's is known"))
    seconds, where = patience
    names = ("main", f"{target_of(seen).wire}.own-size", f"{target_of(seen).wire}.stream")
    took = [(_waited(e), e) for name in names if (e := seen.exchange(name)) is not None]
    slowest = max(took, key=lambda row: row[0], default=None)
    if slowest is None or slowest[0] <= seconds:
        return None
    return found(
        "client-timeout-too-short",
        t(
            "The client waits {seconds:g} s ({where}), and an answer took {took:.1f} s.",
            seconds=seconds,
            where=where,
            took=slowest[0],
        ),
        evidence(slowest[1]),
        fix=t("Raise {where} to several minutes: a long prompt takes longer than this short one.", where=where),
    )


def _waited(exchange: Exchange) -> float:
    """Until the first byte came, or until the doctor lost patience; a connection that failed tells nothing."""
    if exchange.reply is not None:
        return exchange.reply.first_byte_s
    failure = exchange.failure
    return failure.elapsed_s if failure is not None and failure.kind == "timeout" else 0.0


_TIMEOUT_FIELD = re.compile(r"[\"']timeout[\"']\s*:\s*(\d+)")


def _patience(seen: Observations) -> tuple[float, str] | None:
    """(seconds, where it is set) of the client's own time-out; both kinds of settings count milliseconds."""
    client = target_of(seen).client
    if client == "claude-code":
        for file in find_files(seen, client):
            match = re.search(r"[\"']API_TIMEOUT_MS[\"']\s*:\s*[\"']?(\d+)", file.text or "")
            if match and "settings" in file.path:
                return int(match[1]) / 1000, f"API_TIMEOUT_MS, {file.path}"
        value = seen.variable("API_TIMEOUT_MS") or ""
        return (int(value) / 1000, "API_TIMEOUT_MS") if value.isdigit() else None
    if client in ("opencode", "kilo", "qwen"):
        for file in find_files(seen, client):
            match = _TIMEOUT_FIELD.search(file.text or "")
            if match:
                return int(match[1]) / 1000, f"timeout, {file.path}"
    return None


BASE_URL_CHECK = Check("base-url", "The base URL parses", base_url_parses, "target")

CHECKS = (
    BASE_URL_CHECK,
    Check("proxy", "No proxy stands in the way", proxy_route, "target"),
    Check("connection", "A connection comes about", connection, "target"),
    Check("tls", "TLS is used where it is spoken", tls, "target"),
    Check("answer-in-time", "An answer comes in time", slow_answer, "target"),
    Check("client-patience", "The client waits long enough", client_patience, "target"),
)
