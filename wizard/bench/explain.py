"""Why a target is as fast as it is, from its figures and its own metrics, and what would help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from wizard.bench.figures import Figures
from wizard.bench.network import Network
from wizard.i18n import t
from wizard.watching.reading import Reading

CauseCode = Literal[
    "client-limited",
    "network",
    "refused",
    "kv-pressure",
    "queueing",
    "no-prefix-hits",
    "clients-miss-prefix",
    "prefill-bound",
    "decode-bound",
    "saturated",
]

# Shares of the time from which on a part of it is worth a word.
_MUCH = 0.25
_MOST = 0.5
# Of the tokens that could have come from the prefix cache, so few that it does not work.
_FEW_HITS = 0.2
# A prefix cache keeps whole blocks; a shared beginning below this may have none (vLLM's block: 16 tokens; hybrid models
# have larger ones).
_LEAST_SHARED_TOKENS = 512
_FULL = 0.9
# A prompt that is read faster than this leaves nothing for a cache to save that times alone would show.
_SLOW_PROMPT_MS = 150.0
# More requests at once that bring less than this much more throughput: the server is full.
_NO_GAIN = 1.1
# A prefix cache that works for our prompts and never did for so many tokens of others'.
_WORKS, _NEVER, _OTHERS_TOKENS = 0.3, 0.05, 50_000
# Prompts below this are not worth a word about prefill.
_LONG_PROMPT_TOKENS = 512


@dataclass(frozen=True, slots=True)
class PrefixProbe:
    """Two prompts that share their beginning, as the server's own tokenizer and template see them.

    shared_tokens: that both begin with. possible_tokens: length of the earlier one without what asks for the answer.
    first, second: text where they part.
    """

    shared_tokens: int
    possible_tokens: int
    first: str = ""
    second: str = ""

    @property
    def kept(self) -> bool:
        """Whether the beginning is the same, but for what the template adds at the end to ask for an answer."""
        return self.shared_tokens >= 0.9 * self.possible_tokens


@dataclass(frozen=True, slots=True)
class ServerView:
    """The server's own word about the time of the measurement. peaks: the most that was seen in between. queue_ms,
    prefill_ms: mean of a request. earlier_queried_tokens, earlier_hit_tokens: of the prefix cache before we came.

    caching: whether it has its prefix cache on, None where it does not say. probe: see PrefixProbe.
    """

    reading: Reading
    peak_running: int | None = None
    peak_waiting: int | None = None
    peak_kv_usage: float | None = None
    caching: bool | None = None
    probe: PrefixProbe | None = None
    queue_ms: float | None = None
    prefill_ms: float | None = None
    earlier_queried_tokens: int | None = None
    earlier_hit_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that sets the figures. share: of which part of the time, 0 to 1, as a rank. flags: of vLLM."""

    code: CauseCode
    what: str
    saw: tuple[str, ...]
    action: str
    gain: str
    flags: tuple[str, ...] = ()
    share: float = 0.0

    def as_json(self, target: str) -> dict[str, Any]:
        """One entry of `explanations`."""
        return {
            "target": target,
            "code": self.code,
            "what": self.what,
            "saw": list(self.saw),
            "action": self.action,
            "flags": list(self.flags),
            "expected_gain": self.gain,
        }


def explain(
    ladder: Sequence[tuple[Figures, ServerView | None]], network: Network | None = None, *, tokens_shared: int = 0
) -> tuple[Cause, ...]:
    """What set the figures of one target, the weightiest first.

    ladder: its figures in rising concurrency, with what the server said meanwhile, None where it says nothing.
    tokens_shared: how many of a request's prompt tokens, at a guess, had been sent before where `seen` says so.
    """
    answered = [(figures, view) for figures, view in ladder if figures.time_to_first_token_ms]
    refused = [figures for figures, _ in ladder if figures.refused]
    found: list[Cause | None] = [_refused(refused[0])] if refused else []
    if answered:
        low, (high, view) = answered[0][0], answered[-1]
        # A client that only lowers the throughput somewhat is worth a note, and has one.
        limited = next((one for one, _ in answered if one.distortion in ("gaps", "all")), None)
        found.append(_client(limited) if limited else None)
        found.append(_network(low, network))
        found.append(_queue(low, high, view))
        prefix = next(
            (cause for figures, seen in answered if (cause := _prefix(figures, seen, tokens_shared)) is not None), None
        )
        found.append(prefix or _clients_miss(view))
        found.append(_prefill(low, answered[0][1], network, prefix is not None))
        found.append(_decode(low))
        found.append(_saturated([figures for figures, _ in answered]))
    causes = [cause for cause in found if cause]
    return tuple(sorted(causes, key=lambda cause: -cause.share))


def _p50(spread: Any) -> float:
    return spread.p50 if spread else 0.0


def _client(figures: Figures) -> Cause:
    return Cause(
        "client-limited",
        t("This client is at its limit at {count} at once.", count=figures.concurrency),
        (t("client: {cores:.2f} cores, {lag:.1f} ms late", cores=figures.client.cpu_cores, lag=figures.client.lag_ms),),
        t("Measure from a machine that is idle, or fewer at once."),
        t("The server may be faster than shown; by how much, this run cannot tell."),
        share=1.0,
    )


def _refused(figures: Figures) -> Cause:
    return Cause(
        "refused",
        t("{count} of {requests} requests were refused (429), {at_once} at once.",
          count=figures.refused, requests=figures.requests, at_once=figures.concurrency),
        tuple(f"{count} x {kind}" for kind, count in figures.error_kinds[:3]),
        t("Stay below the limit of this endpoint: fewer at once, or `--rate`."),
        t("None of the requests fails, and the figures are those of the load that was meant."),
        share=0.95,
    )  # fmt: skip


def _network(low: Figures, network: Network | None) -> Cause | None:
    if network is None or network.share is None or network.share < _MUCH or network.empty_request_ms is None:
        return None
    opening = _p50(network.resolve_ms) + _p50(network.connect_ms) + _p50(network.tls_ms)
    return Cause(
        "network",
        t("{share:.0%} of the time to first token is the way to the server.", share=network.share),
        (
            t("a request without content: {empty:.1f} ms; first token: {first:.1f} ms",
              empty=network.empty_request_ms.p50, first=_p50(low.time_to_first_token_ms)),
            t("a new connection: {opening:.1f} ms more", opening=opening),
        ),
        t("Serve nearer, go around the proxy, or keep connections open."),
        t("At most {empty:.0f} ms of each first token, and {opening:.0f} ms for each new connection.",
          empty=network.empty_request_ms.p50, opening=opening),
        share=network.share,
    )  # fmt: skip


def _queue(low: Figures, high: Figures, view: ServerView | None) -> Cause | None:
    first = high.time_to_first_token_ms.mean if high.time_to_first_token_ms else 0.0
    waited_ms = view.queue_ms if view else None
    if waited_ms is None:
        # Without the server's word: first tokens that come much later, while those after them come nearly as fast.
        alone, gap, gap_alone = (
            _p50(value)
            for value in (low.time_to_first_token_ms, high.time_per_output_token_ms, low.time_per_output_token_ms)
        )
        if high.concurrency == low.concurrency or not alone or first < 4 * alone or gap > 3 * max(gap_alone, 0.1):
            return None
        waited_ms = first - alone
        saw = [
            t("first token: {alone:.0f} ms at {low} at once, {first:.0f} ms at {high}; the server shows no metrics",
              alone=alone, low=low.concurrency, first=first, high=high.concurrency)
        ]  # fmt: skip
    else:
        saw = [t("vllm:request_queue_time_seconds: {ms:.0f} ms on average", ms=waited_ms)]
    share = waited_ms / first if first else 0.0
    preempted = (view.reading.preemptions or 0) if view else 0
    full = bool(view and view.peak_kv_usage is not None and view.peak_kv_usage >= _FULL)
    if preempted:
        saw.append(t("vllm:num_preemptions_total: {count} more", count=preempted))
    if view and view.peak_kv_usage is not None:
        saw.append(t("KV cache: {share:.0%} used at most", share=view.peak_kv_usage))
    if view and view.peak_running:
        saw.append(t("at most {running} ran while {waiting} waited",
                     running=view.peak_running, waiting=view.peak_waiting or 0))  # fmt: skip
    if preempted or (full and share >= _MUCH):
        return Cause(
            "kv-pressure",
            t("The KV cache is too small for {count} at once.", count=high.concurrency),
            tuple(saw),
            t("Give the cache more tokens: FP8 halves a token's size; more of the GPU's memory, a smaller or quantised"
              " model and tensor parallelism leave more of it."),
            t("With FP8 twice the tokens, so about twice as many at once before they wait."),
            ("--kv-cache-dtype fp8", "--gpu-memory-utilization 0.95"),
            max(share, _MOST if preempted else 0.0),
        )  # fmt: skip
    if share < _MUCH:
        return None
    running = view.peak_running if view else None
    wider = 2 * (running or high.concurrency)
    return Cause(
        "queueing",
        t("Requests wait for their turn at {count} at once.", count=high.concurrency),
        tuple(saw),
        t("Let the server run more at once while its KV cache has room, or spread the load over several."),
        t("Up to {ms:.0f} ms of the {first:.0f} ms to the first token; each answer then comes somewhat slower.",
          ms=waited_ms, first=first),
        (f"--max-num-seqs {wider}",) if running else (),
        share,
    )  # fmt: skip


def _prefix(figures: Figures, view: ServerView | None, tokens_shared: int) -> Cause | None:
    """Requests whose beginning was sent before, and a cache that did not help."""
    if figures.warm_first_token_ms is None or tokens_shared < _LEAST_SHARED_TOKENS:
        return None
    hit_rate = view.reading.prefix_hit_rate if view else None
    saw: list[str] = []
    if hit_rate is not None:
        saw.append(t("prefix cache: {rate:.0%} of the prompt tokens were hits", rate=hit_rate))
    if figures.cached_tokens is not None:
        saw.append(t("usage.prompt_tokens_details.cached_tokens: {count}", count=figures.cached_tokens))
    helped = hit_rate
    if helped is None and figures.cached_tokens is not None and figures.prompt_tokens:
        helped = figures.cached_tokens / figures.prompt_tokens
    cold, warm = figures.cold_first_token_ms, figures.warm_first_token_ms
    if cold:
        saw.append(
            t("first token: {cold:.0f} ms of a new beginning, {warm:.0f} ms of one sent before",
              cold=cold.p50, warm=warm.p50)
        )  # fmt: skip
    off = view is not None and view.caching is False
    if helped is None and not off:
        if cold is None or cold.p50 < _SLOW_PROMPT_MS or warm.p50 < 0.7 * cold.p50:
            return None
    elif helped is not None and helped >= _FEW_HITS:
        return None
    what = t("Beginnings that were sent before are computed again.")
    average = figures.prompt_tokens / max(1, figures.requests - figures.errors) if figures.prompt_tokens else None
    cacheable = min(1.0, tokens_shared / average) if average else 0.9
    gain = t(
        "About {share:.0%} of the time that prompts take: {saved:.0f} of {first:.0f} ms to the first token.",
        share=cacheable, saved=cacheable * warm.p50, first=warm.p50,
    )  # fmt: skip
    share = 0.9
    if off:
        return Cause(
            "no-prefix-hits", what, (*saw, t("vllm:cache_config_info: enable_prefix_caching is off")),
            t("Switch the prefix cache on."), gain, ("--enable-prefix-caching",), share,
        )  # fmt: skip
    probe = view.probe if view else None
    if probe and not probe.kept:
        saw.append(
            t("/tokenize: two prompts of one conversation share {shared} of {possible} tokens",
              shared=probe.shared_tokens, possible=probe.possible_tokens)
        )  # fmt: skip
        saw.append(t("there they part: {one!r} and {other!r}", one=probe.first, other=probe.second))
        return Cause(
            "no-prefix-hits", what, tuple(saw),
            t("The chat template changes the beginning between requests: a time, or turns that it rewrites. Serve with"
              " a template that keeps it."),
            gain, ("--chat-template FILE",), share,
        )  # fmt: skip
    if probe:
        saw.append(t("/tokenize: the template keeps the beginning"))
        return Cause(
            "no-prefix-hits", what, tuple(saw),
            t("The cache is too small to keep beginnings until they come again, or several servers share the requests:"
              " give it more memory, or send a conversation to the same server each time."),
            gain, ("--kv-cache-dtype fp8",), share,
        )  # fmt: skip
    return Cause(
        "no-prefix-hits", what, tuple(saw),
        t("Something on the way changes the beginning (a gateway's added text, Claude Code's attribution header:"
          " `CLAUDE_CODE_ATTRIBUTION_HEADER=0`), spreads requests over servers, or has no prefix cache."),
        gain, (), share,
    )  # fmt: skip


def _clients_miss(view: ServerView | None) -> Cause | None:
    """The cache works, as our own prompts show, and has been of no use to those who asked before."""
    queried, hit = (view.earlier_queried_tokens, view.earlier_hit_tokens) if view else (None, None)
    ours = view.reading.prefix_hit_rate if view else None
    if not queried or hit is None or ours is None:
        return None
    if queried < _OTHERS_TOKENS or hit / queried >= _NEVER or ours < _WORKS:
        return None
    return Cause(
        "clients-miss-prefix",
        t("The prefix cache works, but not for the clients that used this server before."),
        (
            t("before this run: {hit} of {queried} prompt tokens were hits", hit=hit, queried=queried),
            t("in this run: {rate:.0%}", rate=ours),
        ),
        t("Their prompts begin differently each time: a time or an id in the system prompt, or Claude Code's"
          " attribution header: `CLAUDE_CODE_ATTRIBUTION_HEADER=0`. What changes belongs at the end."),
        t("For them, too, about {rate:.0%} of the prompt tokens would come from the cache.", rate=ours),
        share=0.6,
    )  # fmt: skip


def _prefill(low: Figures, view: ServerView | None, network: Network | None, no_hits: bool) -> Cause | None:
    """The time to first token of a server that has nothing else to do, less the way there and the queue."""
    good = low.requests - low.errors
    if not low.prompt_tokens or not good or low.prompt_tokens / good < _LONG_PROMPT_TOKENS:
        return None
    prompt = low.prompt_tokens / good
    hit_rate = view.reading.prefix_hit_rate if view else None
    cached = hit_rate * prompt if hit_rate is not None else (low.cached_tokens or 0) / good
    first, whole = _p50(low.time_to_first_token_ms), _p50(low.end_to_end_ms)
    way = network.empty_request_ms.p50 if network and network.empty_request_ms else 0.0
    # Without the server's word, what is left of the first token's time.
    said = view.prefill_ms if view else None
    prefill_ms = said if said is not None else first - way - ((view.queue_ms or 0.0) if view else 0.0)
    share = prefill_ms / whole if whole else 0.0
    if share < _MUCH or prefill_ms <= 0:
        return None
    rate = (prompt - cached) / prefill_ms * 1000
    flags: tuple[str, ...]
    if no_hits:
        action, flags = t("Get the prefix cache to work first; see above."), ()
        gain = t("See there.")
    else:
        action = t(
            "Send less that is new: what changes belongs at the prompt's end, so that the rest comes from the cache."
            " Larger batches of prompt tokens, more GPUs in parallel and FP8 weights compute it faster."
        )
        flags = ("--enable-prefix-caching", "--max-num-batched-tokens 8192", "--tensor-parallel-size 2")
        gain = t("Half the new tokens: about {saved:.0f} ms less to the first token.", saved=prefill_ms / 2)
    return Cause(
        "prefill-bound",
        t("{share:.0%} of an answer's time goes into reading its prompt.", share=share),
        (
            t("{prompt:.0f} prompt tokens, {cached:.0f} of them cached, in {ms:.0f} ms: {rate:.0f} new tokens/s",
              prompt=prompt, cached=cached, ms=prefill_ms, rate=rate),
        ),
        action, gain, flags, share,
    )  # fmt: skip


def _decode(low: Figures) -> Cause | None:
    each, whole, first = _p50(low.time_per_output_token_ms), _p50(low.end_to_end_ms), _p50(low.time_to_first_token_ms)
    share = (whole - first) / whole if whole else 0.0
    if share < _MOST or not each:
        return None
    return Cause(
        "decode-bound",
        t("{share:.0%} of an answer's time goes into writing it, token by token.", share=share),
        (t("{ms:.1f} ms a token at {count} at once: {rate:.0f} tokens/s each",
           ms=each, count=low.concurrency, rate=1000 / each),),
        t("Each token reads all active weights once: FP8 or 4-bit weights are half or a quarter to read; a draft"
          " (speculative decoding) writes several at once; tensor parallelism reads with several GPUs."),
        t("At few at once up to {half:.1f} ms a token with FP8 weights instead of 16-bit ones, {quarter:.1f} ms with"
          " 4-bit ones; less at many.", half=each / 2, quarter=each / 4),
        ("--speculative-config '{\"method\": \"ngram\", \"num_speculative_tokens\": 3}'", "--tensor-parallel-size 2"),
        share * 0.9,  # what everybody has comes after what is wrong
    )  # fmt: skip


def _saturated(ladder: Sequence[Figures]) -> Cause | None:
    steps = [one for one in ladder if one.output_tokens_per_s and one.rate_per_s is None]
    for before, after in pairwise(steps):
        if after.concurrency <= before.concurrency or before.cache != after.cache:
            continue
        now, then = after.output_tokens_per_s or 0.0, before.output_tokens_per_s or 0.0
        if now < _NO_GAIN * then:
            return Cause(
                "saturated",
                t("More than {count} at once brings nothing.", count=before.concurrency),
                (
                    t("{then:.0f} tokens/s at {low} at once, {now:.0f} at {high}",
                      then=then, low=before.concurrency, now=now, high=after.concurrency),
                ),
                t("Keep clients at {count} at once, or add a server.", count=before.concurrency),
                t("The same throughput, and first tokens after {ms:.0f} instead of {more:.0f} ms.",
                  ms=_p50(before.time_to_first_token_ms), more=_p50(after.time_to_first_token_ms)),
                share=0.2,
            )  # fmt: skip
    return None
