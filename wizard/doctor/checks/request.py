"""What in the client's requests the server does not take: one variation at a time against the plain request."""

from __future__ import annotations

import json
import re

from wizard.catalog.models import find_model
from wizard.doctor.bodies import Spoken, excerpt
from wizard.doctor.causes import found
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.judging import (
    PASSING,
    evidence,
    manner,
    plain_works,
    refused,
    severity_for,
    target_of,
    unseen,
    variation,
)
from wizard.doctor.manners import model_on_the_wire
from wizard.doctor.observations import Observations
from wizard.doctor.probes import MANY_TOKENS
from wizard.doctor.reach import Reach, Seen, judge_reach
from wizard.doctor.reach import judged as judged_exchange
from wizard.doctor.symptoms import REQUEST_CODES
from wizard.i18n import t
from wizard.problems import Problem, Severity


def plain_request(seen: Observations) -> Verdict:
    """The plain request refused for its form."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach = judge_reach(seen)
    best = reach.best
    if best is None or best.grade != "answers" or best.family is None:
        return None
    if best.family in ("max-tokens", "context"):
        return _room(seen, reach, best)
    code = REQUEST_CODES.get(best.family)
    if code is None:
        return None
    if code == "responses-tool-type-unsupported" and target_of(seen).wire != "responses":
        code = "tool-choice-not-enabled"
    return found(code, t("The server refuses the request: {text}", text=excerpt(best.text, 160)), evidence(best))


def _room(seen: Observations, reach: Reach, best: Seen) -> Problem:
    """Two causes share most of their words; the numbers tell them apart."""
    numbers = Numbers.read(best.text)
    window = numbers.window or reach.window(model_on_the_wire(target_of(seen).client, target_of(seen).model))
    saw = [evidence(best)]
    if window:
        saw.append(t("window: {window} tokens", window=window))
    prompt_alone = numbers.prompt is not None and window is not None and numbers.prompt >= window
    by_words = best.family == "max-tokens"
    if not prompt_alone and (by_words or (numbers.asked is not None and numbers.prompt is not None)):
        room = window - numbers.prompt if window and numbers.prompt else None
        fix = (
            t("Set the client's output limit to {room} at most, or enlarge `--max-model-len`.", room=room)
            if room
            else ""
        )
        return found(
            "max-tokens-too-large",
            t("The client asks for more output than fits: {text}", text=excerpt(best.text, 140)),
            *saw,
            fix=fix,
        )
    return found("context-length-exceeded", t("The prompt does not fit: {text}", text=excerpt(best.text, 140)), *saw)


class Numbers:
    """The figures in an error about room: window, prompt, tokens asked for."""

    def __init__(self, window: int | None, prompt: int | None, asked: int | None) -> None:
        self.window, self.prompt, self.asked = window, prompt, asked

    @classmethod
    def read(cls, text: str) -> Numbers:
        """From the texts of vLLM (old and new), OpenAI, llama.cpp, SGLang."""
        bracket = re.search(r"\((\d+) > (\d+) - (\d+)\)", text)
        if bracket:
            asked, window, prompt = (int(number) for number in bracket.groups())
            return cls(window, prompt, asked)
        return cls(
            _number(
                text,
                r"(?:context|model) (?:length|window|size)\D{0,40}(\d[\d,]*)",
                r"(?:max_model_len|n_ctx)\D{0,9}(\d[\d,]*)",
            ),
            _number(
                text,
                r"(\d[\d,]*) (?:tokens )?in (?:the|your) (?:messages|prompt)",
                r"(\d[\d,]*) (?:input|prompt) tokens",
                r"(?:prompt|input|messages)\D{0,60}?(\d[\d,]*) tokens",
            ),
            _number(text, r"(\d[\d,]*) in the completion", r"max_(?:completion_)?tokens\D{0,30}(\d[\d,]*)"),
        )


def _number(text: str, *patterns: str) -> int | None:
    for pattern in patterns:
        match = re.search(pattern, text, re.I)
        if match:
            return int(match[1].replace(",", ""))
    return None


# ---- room --------------------------------------------------------------------------------------------------------


def room(seen: Observations) -> Verdict:
    """Whether the window holds what the client sends and asks for."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach, target = judge_reach(seen), target_of(seen)
    if not plain_works(reach):
        return None
    problems: list[Problem] = []
    title = manner(seen).title
    window = reach.window(model_on_the_wire(target.client, target.model))
    limit = refused(seen, f"{target.wire}.max-tokens")
    own = target.max_tokens or manner(seen).max_tokens
    # Of a success only the first byte was read, so only an error status says anything. Where the client sets no limit
    # of its own, a window that is known explains the refusal, and nothing is wrong.
    families = ("max-tokens", "context", "other", "schema", "server-error")
    telling = limit is not None and limit.status >= 400 and limit.family in families
    # It is asked for as a stream, so where no stream is given at all it says nothing of its length.
    telling = telling and refused(seen, f"{target.wire}.stream") is None
    if limit is not None and telling and (own or window is None):
        asked = own or MANY_TOKENS
        numbers = Numbers.read(limit.text)
        fits = numbers.window - numbers.prompt if numbers.window and numbers.prompt else numbers.window
        what = (
            t("{client} asks for {asked} tokens of output, more than there is room for.", client=title, asked=asked)
            if own
            else t("A client that asks for {asked} tokens of output is refused.", asked=asked)
        )
        fix = (
            t("Set the client's output limit to {room} at most, or enlarge `--max-model-len`.", room=fits)
            if fits
            else ""
        )
        severity: Severity = "error" if own else "info"
        code = "server-bug-500" if limit.family == "server-error" else "max-tokens-too-large"
        problems.append(found(code, what, evidence(limit), fix=fix, severity=severity))
    if window is None:
        return tuple(problems)
    needs = target.prompt_tokens or 0
    saw = t("GET /models: max_model_len {window}", window=window)
    if needs >= window:
        problems.append(
            found(
                "context-length-exceeded",
                t(
                    "{client} begins with about {needs} tokens, and the window is {window}.",
                    client=manner(seen).title,
                    needs=needs,
                    window=window,
                ),
                saw,
            )
        )
    elif target.context_tokens and target.context_tokens > window:
        problems.append(
            found(
                "context-length-exceeded",
                t(
                    "The client takes the window for {told} tokens, and it is {window}.",
                    told=target.context_tokens,
                    window=window,
                ),
                saw,
                fix=t(
                    "Tell the client {window}, or start the server with `--max-model-len {told}`.",
                    window=window,
                    told=target.context_tokens,
                ),
            )
        )
    elif target.max_tokens and target.max_tokens >= window and not problems:
        problems.append(
            found(
                "max-tokens-too-large",
                t(
                    "The client asks for {asked} tokens of output, and the whole window is {window}.",
                    asked=target.max_tokens,
                    window=window,
                ),
                saw,
                severity="warning",
            )
        )
    return tuple(problems)


def own_size(seen: Observations) -> Verdict:
    """Whether a prompt as long as the client's own gets through to the server, and fits its window."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    target = target_of(seen)
    exchange = seen.exchange(f"{target.wire}.own-size")
    if exchange is None or not plain_works(judge_reach(seen)):
        return Unseen(t("no prompt of the client's size was sent (`--full` sends one to any server)"))
    size = variation(seen, exchange.probe)
    if size is None or size.grade == "works" or size.status < 400:
        return None
    tokens = target.prompt_tokens or 0
    client = manner(seen).title
    if size.family in ("context", "max-tokens"):
        return found(
            "context-length-exceeded",
            t(
                "A prompt as long as {client}'s first ({tokens} tokens) does not fit: {text}",
                client=client,
                tokens=tokens,
                text=excerpt(size.text, 120),
            ),
            evidence(size),
        )
    if size.status == 413:
        return found(
            "proxy-body-limit",
            t(
                "A request as large as {client}'s first ({tokens} tokens) is refused for its size.",
                client=client,
                tokens=tokens,
            ),
            evidence(size),
        )
    if size.family == "gateway-timeout":
        return found(
            "proxy-read-timeout",
            t(
                "The short request is answered; of one as long as {client}'s ({tokens} tokens) a proxy tires: {text}",
                client=client,
                tokens=tokens,
                text=excerpt(size.text, 100),
            ),
            evidence(size),
        )
    if size.family in PASSING:
        return None
    return found(
        "server-bug-500" if size.status >= 500 else "message-rejected",
        t(
            "The short request is answered; one as long as {client}'s ({tokens} tokens) is not: {text}",
            client=client,
            tokens=tokens,
            text=excerpt(size.text, 120),
        ),
        evidence(size),
    )


# ---- shapes of messages ------------------------------------------------------------------------------------------


def messages_taken(seen: Observations) -> Verdict:
    """System, developer, two users, content parts, null content: each against the plain request."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    reach, wire = judge_reach(seen), target_of(seen).wire
    if not plain_works(reach) or wire != "chat":
        return None
    problems: list[Problem] = []
    system = refused(seen, "chat.system")
    if system is not None:
        problems.append(_shape(system, "template-no-system-role", severity_for(seen, "system"), t("a system message")))
    developer = refused(seen, "chat.developer")
    if developer is not None and system is None:
        code = (
            "server-bug-500"
            if developer.status >= 500 and developer.family == "server-error"
            else "developer-role-rejected"
        )
        problems.append(_shape(developer, code, severity_for(seen, "developer"), t("the role `developer`")))
    if system is None:
        order = refused(seen, "chat.two-users") or refused(seen, "chat.two-systems")
        if order is not None:
            severity: Severity = "error" if manner(seen).agent else "warning"
            problems.append(_shape(order, "template-role-order", severity, t("two messages of one role in a row")))
    parts = refused(seen, "chat.parts")
    if parts is not None:
        code = "not-multimodal" if parts.family == "not-multimodal" else "content-parts-unsupported"
        problems.append(_shape(parts, code, severity_for(seen, "parts"), t("content as a list of parts")))
    null = refused(seen, "chat.null-content")
    if null is not None and null.family not in ("role-order", "tools-off"):
        problems.append(
            _shape(null, _by_status(null), severity_for(seen, "tools"), t("an assistant message with `content: null`"))
        )
    image = refused(seen, "chat.image")
    if image is not None and parts is None:
        problems.append(_shape(image, "not-multimodal", "info", t("an image")))
    return tuple(problems)


def _by_status(judged: Seen) -> str:
    if judged.family in ("content-parts", "schema", "parameter"):
        return REQUEST_CODES[judged.family]
    return "server-bug-500" if judged.status >= 500 else "schema-422" if judged.status == 422 else "message-rejected"


def _shape(judged: Seen, code: str, severity: Severity, what: str) -> Problem:
    if judged.status >= 500 and judged.family == "server-error":
        code = "server-bug-500"
    return found(
        code,
        t(
            "The plain request is answered, with {what} it is refused: {text}",
            what=what,
            text=excerpt(judged.text, 120),
        ),
        evidence(judged),
        severity=severity,
    )


# ---- tools -------------------------------------------------------------------------------------------------------

# The forms in which models write a call: what is left of them in the text was not recognised by the server's parser.
_CALL_AS_TEXT = re.compile(
    r"</?tool_call|<function[=_ ]|<\|tool_call|<\|python_tag\|>|\[TOOL_CALLS\]|<｜tool▁call|<function_calls>|"
    r"<invoke name|<minimax:tool_call>|functools\[|<tool_use>|<\|channel\|>\s*commentary|<tools>|to=functions?\.|"
    r"[\"']name[\"']\s*:\s*[\"'](?:get_weather|doctor_\w+)[\"']|<get_weather>|"
    # In Python's words a call is the text's beginning, or in brackets: small models also write programs about the tool.
    r"\[get_weather\s*\(|\A\W*(?:(?:python|tool_code)\s+)?(?:print\()?get_weather\s*\(|"
    r"<｜DSML|</?(?:function|parameter)[=>]|Action:\s*\S+\s+Action Input:|"
    r"<(?:execute_command|read_file|use_mcp_tool|bash)>\s*<\w+>",
    re.I,
)


def is_call_as_text(content: str) -> bool:
    """Whether the text is a tool call: marked as one, or an object with a name and arguments."""
    if _CALL_AS_TEXT.search(content):
        return True
    fenced = re.search(r"```(?:json|tool_call|tool_code)?\s*(\{.*?\})\s*```", content, re.S)
    try:
        value = json.loads(fenced[1] if fenced else content)
    except (ValueError, RecursionError):
        return False
    value = value[0] if isinstance(value, list) and value else value
    if not isinstance(value, dict):
        return False
    named = any(isinstance(value.get(name), str) for name in ("name", "function", "tool", "tool_name"))
    return bool(value.get("tool_calls")) or (named and bool({"arguments", "parameters", "args"} & set(value)))


def is_broken_call(content: str) -> bool:
    """Whether what stands in `<tool_call>` is no JSON: then the model is at fault, and no parser could read it.

    A text that only ends too early (the token limit) is not called broken.
    """
    marked = re.search(r"<tool_call>\s*(\{.*?)\s*(</tool_call>|$)", content, re.S)
    if marked is None:
        return False
    try:
        json.JSONDecoder().raw_decode(marked[1])
    except json.JSONDecodeError as error:
        return bool(marked[2]) or (error.pos < len(marked[1].rstrip()) - 1 and not error.msg.startswith("Unterminated"))
    except RecursionError:
        return True
    return False


_TOOL_PROBES = {"chat": "chat.tools", "responses": "responses.function", "messages": "messages.tools"}


def _right_flags(model: str) -> str:
    """What to start vLLM with for this model's tool calls, where the catalogue knows it."""
    entry = find_model(model)
    if entry is None or not entry.tool_call_args:
        return ""
    flags = dict.fromkeys(("--enable-auto-tool-choice", *entry.tool_call_args))
    return t("For {model} start vLLM with `{flags}`.", model=entry.id, flags=" ".join(flags))


def tools_taken(seen: Observations) -> Verdict:
    """Whether one tool is taken, and a call of it comes back as a call."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    target = target_of(seen)
    if not plain_works(judge_reach(seen)):
        return None
    probe = _TOOL_PROBES[target.wire]
    no = refused(seen, probe)
    severity = severity_for(seen, "tools")
    if no is not None:
        if no.family == "server-error" and no.status >= 500:
            return found(
                "server-bug-500",
                t("With a tool the server fails inside: {text}", text=excerpt(no.text, 120)),
                evidence(no),
                severity=severity,
            )
        code = REQUEST_CODES.get(no.family or "other", "tool-choice-not-enabled")
        if code in ("responses-tool-type-unsupported", "template-role-order", "not-multimodal"):
            code = "tool-choice-not-enabled"
        return found(
            code,
            t("The plain request is answered, with one tool it is refused: {text}", text=excerpt(no.text, 140)),
            evidence(no),
            severity=severity,
            fix=_right_flags(target.model) if code == "tool-choice-not-enabled" else "",
        )
    cross = seen.exchange("cross.tools")
    if cross is not None and (told := judged_exchange(seen, cross, "chat")).family == "tools-off":
        return found(
            "tool-choice-not-enabled",
            t("The server takes tools here and parses no call; on the chat path it says why: {text}", text=told.text),
            evidence(told),
            severity=severity,
            fix=_right_flags(target.model),
        )
    judged = variation(seen, probe)
    spoken = judged.body.spoken if judged and judged.body and judged.grade == "works" else None
    if judged is None or spoken is None or spoken.tool_calls:
        return None
    said = spoken.content.strip() or spoken.reasoning
    if not said.strip():
        return _call_lost(judged, spoken)
    if is_broken_call(said):
        return found(
            "tool-call-malformed",
            t("The model wrote a tool call that is no JSON: {text}", text=excerpt(said, 100)),
            evidence(judged),
            severity="warning",
        )
    if is_call_as_text(said):
        return found(
            "tool-parser-mismatch",
            t("The model called the tool, and the call arrived as text: {text}", text=excerpt(said, 100)),
            evidence(judged),
            fix=_right_flags(target.model),
        )
    return None


def _call_lost(judged: Seen, spoken: Spoken) -> Problem | None:
    """Tokens were generated for the tool's question, and neither text nor call came of them."""
    if not spoken.completion_tokens or spoken.finish not in ("stop", "tool_calls"):
        return None
    return found(
        "parser-lost-content",
        t(
            "With a tool {count} tokens were generated, and neither text nor a call arrived.",
            count=spoken.completion_tokens,
        ),
        evidence(judged),
    )


# ---- parameters --------------------------------------------------------------------------------------------------

_PARAMETER_PROBES: dict[str, tuple[str, ...]] = {
    "chat": ("chat.extras", "chat.openai-extras", "chat.usage", "chat.completion-tokens"),
    "responses": ("responses.codex",),
    "messages": (),
}


def parameters_taken(seen: Observations) -> Verdict:
    """Whether parameters that clients add are taken."""
    skipped = unseen(seen)
    if skipped is not None:
        return skipped
    wire = target_of(seen).wire
    if not plain_works(judge_reach(seen)):
        return None
    stream = refused(seen, f"{wire}.stream")
    for probe in _PARAMETER_PROBES[wire]:
        no = refused(seen, probe)
        if no is None or (probe == "chat.usage" and stream is not None):
            continue
        code = "server-bug-500" if no.status >= 500 and no.family == "server-error" else "unsupported-params"
        severity: Severity = "error" if probe == "responses.codex" and target_of(seen).client == "codex" else "warning"
        return found(
            code,
            t("The server refuses a parameter: {text}", text=excerpt(no.text, 140)),
            evidence(no),
            t("parameters sent: {names}", names=", ".join(_added(no))),
            severity=severity,
        )
    return None


def _added(judged: Seen) -> tuple[str, ...]:
    body = judged.exchange.request.body
    plain = {"model", "messages", "input", "max_tokens", "max_output_tokens", "stream"}
    return tuple(name for name in body if name not in plain) if isinstance(body, dict) else ()


CHECKS = (
    Check("request", "The plain request's form is taken", plain_request, "target"),
    Check("room", "The window holds what the client sends and asks for", room, "target"),
    Check("own-size", "A prompt of the client's size gets through", own_size, "target"),
    Check("messages", "All shapes of messages are taken", messages_taken, "target"),
    Check("tools", "Tools are taken, and calls come back as calls", tools_taken, "target"),
    Check("parameters", "Parameters that clients add are taken", parameters_taken, "target"),
)
