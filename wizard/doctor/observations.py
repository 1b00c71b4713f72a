"""All the evidence of one examination as values. Flows fill it in, checks read it, neither knows the other.

What was not looked at is None or empty; what was looked at and failed says so in its own field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

from wizard.endpoint.exchange import HttpFailure, HttpReply
from wizard.problems import Problem
from wizard.secret import Secret

Wire = Literal["chat", "responses", "messages"]
AuthStyle = Literal["bearer", "x-api-key", "api-key", "both", "none", "wrong"]
TcpOutcome = Literal["open", "refused", "timeout", "unreachable"]
Place = Literal["container", "wsl", "host"]


@dataclass(frozen=True, slots=True)
class Target:
    """A triple as one client has it, unchanged: blanks, quotes and slashes are evidence.

    client: its name in templates/, or a name given by `--client-type`; empty when no client is meant.
    key: as the client would send it; None where no key was found. key_source and source: a file or a variable.
    small_model: the model for side jobs (titles, haiku), where the client has one and it is set.
    max_tokens, context_tokens: what the client asks for in a request and what it believes the window to be.
    auth: the header in which the client sends the key. prompt_tokens: of the client's first request; None: not known.
    profile: the profile's name where the triple is from one.
    """

    client: str
    base_url: str
    model: str
    key: Secret | None
    source: str
    key_source: str = ""
    small_model: str | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None
    wire: Wire = "chat"
    auth: AuthStyle = "bearer"
    prompt_tokens: int | None = None
    profile: str = ""

    @property
    def key_hint(self) -> str:
        """For output: `sk-…last4`, or `none`."""
        return self.key.hint if self.key else "none"


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file that a client or a shell reads, when it exists.

    client: its owner's name in templates/, `shell` for start-up files, `env` for dotenv files, else the program's name
    (`claude-code-router`). scope: whose it is. problem: why it could not be read or parsed (empty: fine).
    """

    client: str
    path: str
    text: str | None
    problem: str = ""
    scope: Literal["user", "project"] = "user"


@dataclass(frozen=True, slots=True)
class Context:
    """Where the evidence was taken. container: docker, podman, kubernetes, lxc, or None. assumed: `--assume`."""

    platform: Literal["linux", "darwin", "windows"]
    container: str | None = None
    wsl: bool = False
    ssh: bool = False
    assumed: Place | None = None

    @property
    def in_container(self) -> bool:
        """Whether the client sits in a container; what the user assumed wins."""
        return self.assumed == "container" if self.assumed else self.container is not None

    @property
    def in_wsl(self) -> bool:
        """Whether the client sits in WSL; what the user assumed wins."""
        return self.assumed == "wsl" if self.assumed else self.wsl


@dataclass(frozen=True, slots=True)
class RequestSummary:
    """What was sent, without the key. direct: past every proxy that the environment names."""

    method: str
    url: str
    auth: AuthStyle = "none"
    body: Any = None
    direct: bool = False
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def line(self) -> str:
        """`POST http://…/v1/chat/completions`, as evidence is shown."""
        return f"{self.method} {self.url}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One probe: its id (stable, dotted: `chat.tools`), what was sent, what came back."""

    probe: str
    request: RequestSummary
    outcome: HttpReply | HttpFailure

    @property
    def reply(self) -> HttpReply | None:
        """The reply, or None where there was none."""
        return self.outcome if isinstance(self.outcome, HttpReply) else None

    @property
    def failure(self) -> HttpFailure | None:
        """The failure, or None where something was answered."""
        return self.outcome if isinstance(self.outcome, HttpFailure) else None


@dataclass(frozen=True, slots=True)
class AddressResult:
    """A TCP connection to one resolved address."""

    address: str
    port: int
    outcome: TcpOutcome
    elapsed_s: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class TlsResult:
    """A handshake with both trust stores: the system's, and the bundle that a CA variable names or Python carries.

    None: not tried. error: of the first that failed. accepted_unverified: the handshake succeeds with verification off.
    plain_http: the port speaks HTTP without TLS. issuer: of the certificate shown.
    """

    system_trusts: bool | None = None
    bundle_trusts: bool | None = None
    error: str = ""
    accepted_unverified: bool | None = None
    plain_http: bool | None = None
    issuer: str = ""


@dataclass(frozen=True, slots=True)
class ProxyRoute:
    """Which proxy the environment sends this URL through. proxy: without user and password; None: none.

    variable: which one named it. bypass: the NO_PROXY entry that keeps the URL away from it.
    """

    proxy: str | None = None
    variable: str = ""
    bypass: str = ""


@dataclass(frozen=True, slots=True)
class NetworkFacts:
    """The way to the target's host. addresses: in the resolver's order. elsewhere: the same port on other hosts that
    might be meant (host.docker.internal, the gateway's address, this machine's own)."""

    scheme: str
    host: str
    port: int
    addresses: tuple[str, ...] = ()
    resolve_error: str = ""
    tcp: tuple[AddressResult, ...] = ()
    tls: TlsResult | None = None
    proxy: ProxyRoute = ProxyRoute()
    elsewhere: tuple[tuple[str, AddressResult], ...] = ()

    @property
    def reachable(self) -> bool | None:
        """Whether any address accepts; None where no connection was tried."""
        return any(result.outcome == "open" for result in self.tcp) if self.tcp else None


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """A server that llm-setup itself started: whether its process lives, and its log's end.

    log: empty where only a profile tells of the server, because it was stopped and its record went with it.
    arguments: vLLM's flags. key: the server's own.
    """

    name: str
    port: int
    alive: bool
    log: str
    ready: bool
    log_findings: tuple[Problem, ...] = ()
    model: str = ""
    served_name: str = ""
    arguments: tuple[str, ...] = ()
    key: Secret | None = None


@dataclass(frozen=True, slots=True)
class Observations:
    """Everything seen. `target` and `exchanges` are of the one endpoint under judgement; `targets` are all of them.

    environment: variables as (name, value), the client's as far as is known. files: those that exist.
    log_findings: what `serving.deaths.judge_log` made of `--log`. error_text: what a client showed (`--error`).
    offline: nothing was sent, so a missing exchange is no evidence. explicit: the triple came from flags. probed: some
    endpoint was asked. client_type: the client that is meant, where it was named.
    """

    context: Context
    environment: tuple[tuple[str, str], ...] = ()
    files: tuple[ClientFile, ...] = ()
    targets: tuple[Target, ...] = ()
    target: Target | None = None
    exchanges: tuple[Exchange, ...] = ()
    network: NetworkFacts | None = None
    servers: tuple[ServerSeen, ...] = ()
    log_findings: tuple[Problem, ...] | None = None
    error_text: str | None = None
    offline: bool = False
    explicit: bool = False
    probed: bool = False
    client_type: str = ""
    # What checks have worked out already from the same exchanges, so that each body is read once.
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def anything(self) -> bool:
        """Whether there was an endpoint, a client's file, a log or an error text to look at."""
        own = any(file.client not in ("shell", "env") for file in self.files)
        return bool(self.targets or self.error_text or own) or self.log_findings is not None

    def variable(self, name: str) -> str | None:
        """The value of an environment variable, or None where it is unset. An empty value is a value."""
        return next((value for key, value in self.environment if key == name), None)

    def file(self, ending: str) -> ClientFile | None:
        """The first file whose path (with forward slashes) ends in `ending`."""
        return next((file for file in self.files if file.path.replace("\\", "/").endswith(ending)), None)

    def exchange(self, probe: str) -> Exchange | None:
        """The exchange of a probe id, or None where it was not sent."""
        return next((exchange for exchange in self.exchanges if exchange.probe == probe), None)

    def reply(self, probe: str) -> HttpReply | None:
        """The reply to a probe; None where it was not sent or nothing came back."""
        exchange = self.exchange(probe)
        return exchange.reply if exchange else None

    def at(
        self, target: Target, exchanges: tuple[Exchange, ...] = (), network: NetworkFacts | None = None
    ) -> Observations:
        """The same evidence with one endpoint in view."""
        return replace(self, target=target, exchanges=exchanges, network=network)
