"""Whether an endpoint is enough for a client: protocol, tools, room. Warnings before anything is written."""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote

from wizard.clients.spec import ClientSpec
from wizard.endpoint.model import Capability, Endpoint
from wizard.i18n import t
from wizard.problems import Fix, Problem

_PROTOCOL_CODE = {
    "responses": "endpoint-unsupported-responses",
    "messages": "endpoint-unsupported-messages",
    "tools": "tool-choice-not-enabled",
}


def judge_fit(
    spec: ClientSpec, endpoint: Endpoint, lacking: frozenset[Capability] = frozenset()
) -> tuple[Problem, ...]:
    """What will keep this client from working with this endpoint, as far as it is known.

    lacking: protocols that the endpoint was asked for and does not have.
    """
    return (*judge_room(spec, endpoint.max_model_len), *_judge_protocols(spec, endpoint, lacking))


def holds_first_request(spec: ClientSpec, room: int | None) -> bool:
    """Whether the client's own first request leaves a token for an answer in a context of `room` tokens (None: not
    known, and not held against it)."""
    return room is None or room > spec.first_request_tokens


def models_command(names: Iterable[str]) -> str:
    """What lists the models that have room for these clients."""
    return " ".join(("llm-setup models", *(f"--for {name}" for name in names)))


def judge_room(spec: ClientSpec, room: int | None) -> tuple[Problem, ...]:
    """Whether a context of `room` tokens (None: not known) is enough for this client; of a server, or of a plan."""
    if room is None or room >= spec.minimum_context_tokens:
        return ()
    first = spec.first_request_tokens
    if not holds_first_request(spec, room):
        what = t(
            "{title} gets no answer in this context: its first request is about {first} tokens, and it holds {room}.",
            title=spec.title,
            first=f"{first:,}",
            room=f"{room:,}",
        )
    else:
        what = t(
            "{title} has little room in this context: it holds {room} tokens, {minimum} are the least to work with.",
            title=spec.title,
            room=f"{room:,}",
            minimum=f"{spec.minimum_context_tokens:,}",
        )
    return (
        Problem(
            "context-too-small-for-client",
            what,
            t("System prompt and tool descriptions of the client take their room before the first word of yours."),
            (f"max_model_len {room}",),
            Fix(
                t(
                    "Serve with a larger context, a model that has one, or take a client that needs less (aider, "
                    "Continue, pi)."
                ),
                (models_command((spec.name,)),),
            ),
            "warning",
        ),
    )


def _judge_protocols(spec: ClientSpec, endpoint: Endpoint, lacking: frozenset[Capability]) -> tuple[Problem, ...]:
    problems: list[Problem] = []
    model = quote(endpoint.model)
    for need in spec.needs:
        if need in endpoint.speaks or (need not in lacking and not endpoint.speaks):
            continue
        fix = Fix(
            t(
                "Put a LiteLLM proxy in between, which translates: the first command writes its configuration and says "
                "how to start it, the second points the client at it."
            ),
            (
                f"llm-setup clients apply litellm --base-url {quote(endpoint.openai_base_url)} --model {model}",
                f"llm-setup clients apply {spec.name} --base-url http://127.0.0.1:4000/v1 --model {model}",
            ),
        )
        why = t("A request of that kind was refused when the endpoint was asked.")
        if need == "tools":
            # A round trip that brings text shows the same as one that is refused: no call.
            why = t("No tool call came when the endpoint was asked for one: text came instead, or a refusal.")
            fix = Fix(t("Start vLLM with `--enable-auto-tool-choice` and the `--tool-call-parser` of the model."))
            if endpoint.kind != "vllm":
                fix = Fix(t("Take a model of this endpoint that calls tools, or ask whoever runs it to allow them."))
        problems.append(
            Problem(
                _PROTOCOL_CODE.get(need, f"endpoint-unsupported-{need.replace('_', '-')}"),
                t("{title} needs `{need}`, which this endpoint does not have.", title=spec.title, need=need),
                why,
                fix=fix,
                severity="warning",
            )
        )
    return tuple(problems)
