"""What an error reply is about: families of words that servers and gateways use, from the most telling on.

A family is a cause by itself only where its words are unmistakable; for the others (`auth`, `path`, `model`, ...) the
checks compare several probes before they name one. Learned from replies of vLLM, SGLang, llama.cpp, Ollama, LM Studio,
LiteLLM, one-api and its descendants, OpenRouter, Azure, nginx, Envoy and Cloudflare.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from wizard.doctor.bodies import Body
from wizard.endpoint.exchange import HttpReply

Family = Literal[
    "waf",
    "no-channel",
    "credits",
    "key-format",
    "upstream-auth",
    "auth",
    "rate",
    "rate-upstream",
    "overloaded",
    "provider-prefix",
    "tools-off",
    "tool-type",
    "max-tokens",
    "context",
    "no-template",
    "developer-role",
    "no-system-role",
    "role-order",
    "content-parts",
    "not-multimodal",
    "beta-fields",
    "parameter",
    "schema",
    "azure",
    "model",
    "path",
    "not-ready",
    "gateway-timeout",
    "server-error",
    "other",
]


@dataclass(frozen=True, slots=True)
class Row:
    """Words of one family. statuses: where given, only with these."""

    family: Family
    pattern: re.Pattern[str]
    statuses: frozenset[int] = frozenset()


def _row(family: Family, pattern: str, *statuses: int) -> Row:
    return Row(family, re.compile(pattern, re.IGNORECASE | re.DOTALL), frozenset(statuses))


_ROWS: tuple[Row, ...] = (
    _row("provider-prefix", r"LLM Provider NOT provided"),
    # Gateways without a way to the model. `no healthy upstream` is Envoy's word for a server that is not there.
    _row(
        "no-channel",
        r"无可用(?:的)?(?:渠道|通道|账号|账户)|(?:没有|找不到)可用(?:的)?(?:渠道|通道|账号|密钥)|可用渠道不存在|"
        r"no (?:available|active|enabled|usable) (?:channels?|accounts?|providers?|credentials|keys?)|"
        r"no channels? (?:is |are )?available|no endpoints found (?:for|matching)|channel.{0,20}not (?:found|available)",
    ),
    _row("rate-upstream", r"no deployments? available.{0,80}(?:try again|cooldown)"),
    _row("no-channel", r"no (?:healthy )?deployments?.{0,20}available|no available (?:model )?(?:deployment|group)"),
    # Quotas in time are rate limits, whatever else their text speaks of.
    _row(
        "rate",
        r"(?:requests?|tokens?|quota|limit).{0,60}(?:per[ _-]?(?:minute|second|hour|day)|/ ?min)|\b[rt]pm\b.{0,40}limit|"
        r"limit.{0,40}\b[rt]p[md]\b|PerMinute|PerDay",
        429,
        403,
        400,
    ),
    _row(
        "credits",
        r"insufficient[ _](?:account )?(?:credits?|balance|quota|funds?|user quota)|(?:credit|account) balance is too low|"
        r"余额不足|余额已|额度不足|额度已(?:用尽|用完|耗尽)|欠费|预扣费|请(?:先)?充值|剩余额度|payment required|"
        r"billing[ _](?:hard|not)|exceeded your current quota|out of credits?|(?:no|not enough|more) credits?\b|"
        r"arrear|budget (?:has been )?exceeded|exceededbudget|spend(?:ing)? limit|credits? (?:have been )?exhausted|"
        r"quota (?:has been )?(?:exhausted|used up)|用户额度|令牌额度|usage limit (?:has been )?reached",
    ),
    _row(
        "key-format",
        r"expected to start with|(?:should|must|needs? to) (?:start|begin) with|"
        r"(?:malformed|invalid|wrong|incorrect) (?:api[ _-]?)?key format|key format (?:is )?(?:invalid|incorrect)|"
        r"(?:api[ _-]?)?key (?:is )?(?:malformed|not in the (?:right|correct) format)|密钥格式|令牌格式",
    ),
    _row(
        "upstream-auth",
        r"\w+Exception - .{0,200}(?:api[ _-]?key|authenti|unauthori|credential)|"
        r"upstream.{0,80}(?:\b40[13]\b|unauthori|authenti|credential|api[ _-]?key|forbidden)|"
        r"(?:\b40[13]\b|unauthori|authenti|api[ _-]?key).{0,60}(?:from )?upstream|上游.{0,30}(?:鉴权|认证|密钥|401|403)|"
        r"provider.{0,40}(?:authentication|credentials|api key).{0,30}(?:failed|invalid|rejected|error)",
    ),
    _row(
        "rate-upstream",
        r"provider returned error|provider_name|upstream|上游|(?:\w+Exception|provider).{0,40}(?:rate|429)|"
        r"temporarily rate-?limited",
        429,
    ),
    _row("overloaded", r"overloaded|负载(?:已)?饱和|过载", 429, 500, 502, 503, 529),
    _row("rate", r".", 429),
    _row(
        "rate",
        r"rate[ _-]?limit|too many requests|RESOURCE_EXHAUSTED|throttl|请求(?:过于)?频繁|限流",
        400,
        403,
        500,
        503,
    ),
    _row("credits", r".?", 402),
    _row(
        "azure",
        r"DeploymentNotFound|API deployment for this resource does not exist|"
        r"Missing required query parameter: api-version|api-version.{0,40}(?:missing|required|not supported)",
    ),
    _row(
        "tools-off",
        r"--enable-auto-tool-choice|--tool-call-parser|tool[ _]choice requires|(?:--jinja|jinja).{0,40}tools?|tools? .{0,40}--jinja|"
        r"does not support (?:tools|function)|(?:tools?|function calling|tool use) (?:is|are) (?:not supported|disabled)|"
        r"no endpoints found that support tool|(?:tool|function)[ _-]?call(?:ing|s)? (?:is |are )?not (?:supported|enabled)",
    ),
    _row(
        "tool-type",
        r"(?:unsupported|unknown|invalid|unrecognized) (?:built-?in )?tool[ _]?type|tool[ _]?type.{0,60}(?:not supported|unsupported)|"
        r"only .{0,24}function.{0,8} tools?|tools?\W{0,3}\d+\W{0,3}\.?(?:type|function|name)|"
        r"(?:namespace|web_search\w*|custom|local_shell|tool_search).{0,60}(?:not supported|unsupported|invalid|unknown)|"
        r"(?:unsupported|unknown|invalid|not supported).{0,60}(?:namespace|web_search|'custom'|local_shell)|"
        r"Failed to parse tools|built-in tools",
    ),
    _row(
        "max-tokens",
        r"max_(?:completion_|output_|new_)?tokens\W.{0,100}(?:too large|cannot be greater|cannot exceed|exceed|must be (?:less|<|at most|no)|"
        r"greater than|larger than|at most|maximum (?:allowed|value)|out of range|range of|valid range|not be more)|"
        r"\(\d+ > \d+ - \d+\)|supports at most \d+ (?:completion|output) tokens|range of max_tokens|"
        r"max_tokens.{0,40}(?:超过|超出|最大)|maximum allowed number of output tokens",
    ),
    _row(
        "context",
        r"maximum (?:context|model|sequence|input|prompt|allowed) (?:length|tokens)|context[ _-](?:length|window|size)|"
        r"prompt (?:is )?too long|(?:prompt|input)[^.]{0,60}(?:exceed|longer than|too long|too large)|"
        r"too many (?:input |prompt )?tokens|n_ctx|reduce the length|上下文(?:长度)?.{0,20}(?:超|过长)|输入.{0,20}(?:过长|超)|"
        r"range of input length|max_model_len|max_prompt_tokens",
    ),
    _row(
        "no-template",
        r"default chat template is no longer allowed|(?:no|without a?|missing|provide a) chat[ _]template|"
        r"chat[ _]template.{0,40}(?:not (?:set|defined|found|provided)|missing|is none|required)|"
        r"(?:not|n't) (?:have|define) a? ?chat[ _]template",
    ),
    _row(
        "no-system-role",
        r"system (?:role|messages?|prompts?|instructions?).{0,30}(?:not supported|unsupported|not allowed|not permitted)|"
        r"(?:does not|doesn't|not) support(?: the)? system|developer instruction is not enabled",
    ),
    _row(
        "developer-role",
        r"unexpected message role|developer.{0,80}(?:not supported|unsupported|invalid|unknown|not allowed|unexpected)|"
        r"(?:unknown|invalid|unsupported|unexpected|unrecognized)[^.]{0,40}developer|got.{0,12}developer|"
        r"(?:expected one of|must be one of|not one of).{0,80}(?:system|user).{0,200}developer|developer.{0,40}is not one of",
    ),
    _row(
        "role-order",
        r"(?:must|should|need to) alternate|alternating|conversation roles|(?:consecutive|successive) (?:user|assistant|messages)|"
        r"system messages?.{0,40}(?:must|should|only).{0,30}(?:first|beginning|start)|(?:first|last) message must|"
        r"only.{0,20}(?:first|one) (?:message|system)|multiple system messages",
    ),
    _row(
        "not-multimodal",
        r"not a multimodal model|(?:does not|doesn't|not|n't) (?:support|accept|handle)\w* (?:the )?(?:image|vision|multi-?modal|visual)|"
        r"(?:image|vision|multi-?modal)\w*.{0,40}(?:not supported|unsupported|not enabled|disabled)|at most 0 image|"
        r"unsupported.{0,30}image|support image input|image input is not|mmproj",
    ),
    _row(
        "content-parts",
        r"content\W.{0,60}(?:must|should|expected|needs? to) (?:be|to be)? ?(?:an? )?(?:valid )?str|input should be a valid string|"
        r"can only concatenate str|invalid type: sequence, expected a string|cannot unmarshal array into|"
        r"(?:expected|requires?) (?:an? )?string.{0,40}(?:list|array|sequence)|unhashable type: 'list'|"
        r"content.{0,40}(?:list|array|parts?).{0,40}(?:not supported|unsupported|invalid|not allowed)|"
        r"'list' object has no attribute|list is not a string|must be str, not list",
    ),
    _row(
        "beta-fields",
        r"context_management|input_examples|cache_control|defer_loading|output_config|anthropic[-_]beta|"
        r"(?:invalid|unexpected|unknown|unsupported).{0,30}\bbeta|thinking.{0,40}(?:adaptive|extra inputs|not supported|input tag)|"
        r"strict: extra inputs|eager_input_streaming",
        400,
        422,
        500,
    ),
    _row(
        "parameter",
        r"unsupported[ _](?:parameter|value|argument|param)|UnsupportedParams|unrecognized (?:request )?(?:argument|parameter|field|key)|"
        r"(?:unknown|unexpected|invalid|extra|additional) (?:request )?(?:parameter|field|argument|propert|keyword|key)|"
        r"extra[_ ](?:forbidden|inputs?|fields?)|(?:param|argument|field|propert)\w*.{0,60}(?:not supported|not permitted|unsupported|"
        r"not allowed|unknown)|drop_params|does not support (?:the )?(?:following )?param|"
        r"(?:is|are) not supported (?:with|for|by|in) (?:this|the) (?:model|api|endpoint)|不支持.{0,10}参数|参数.{0,20}不支持",
        400,
        422,
        404,
        500,
    ),
    _row(
        "model",
        r"model.{0,160}(?:not exist|n't exist|not found|not available|unavailable|unknown|not supported|no access|not have access|"
        r"not allowed|not permitted|is not a valid|not recogni[sz]ed|not loaded|not deployed)|"
        r"(?:unknown|invalid|unsupported|no such|unrecognized|nonexistent|not a valid) model|model_not_found|"
        r"(?:not allowed|no permission|not have (?:access|permission)) to (?:access |use )?(?:the |this )?model|"
        r"模型.{0,60}(?:不存在|未找到|无权|不可用|未开通|未配置|不支持)|(?:不存在|未知|无效)(?:的)?模型|"
        r"invalid model|not served|try pulling it first",
    ),
    _row(
        "auth",
        r"invalid[ _-]?(?:api)?[ _-]?key|(?:incorrect|wrong|bad|expired|revoked|missing|no) api[ _-]?key|"
        r"(?:invalid|expired|missing|bad|no)[^.]{0,24}(?:token|credential|authorization|authentication)|"
        r"unauthori[sz]ed|authenticat|not authori[sz]ed|api[ _-]?key.{0,40}(?:invalid|missing|not valid|expired|required|wrong|not found|"
        r"disabled|incorrect)|令牌|无效的?(?:密钥|key|token)|鉴权|认证失败|未授权|未登录|token_not_found|access token|"
        r"permission[ _]denied|(?:didn't|not) provide an api key|密钥.{0,10}(?:无效|错误|不存在|过期)",
        400,
        401,
        403,
        404,
        500,
        502,
        503,
        200,
    ),
    _row("auth", r".?", 401, 403),
)

_PATH_404 = re.compile(
    r"^\W*(?:404\W*)?(?:(?:page|path|route|endpoint|url|resource|api|file|handler)?[ _]?not[ _]?found|"
    r"no (?:static resource|route|handler|such (?:route|path|endpoint))|cannot (?:get|post) /)|"
    r"(?:unexpected|unknown|invalid|unsupported|no such) (?:endpoint|url|path|route|api|request url)|"
    r"cannot (?:get|post) /|no route matched|404 page not found|route .{0,80}not found|requested (?:url|resource)|"
    r"(?:path|url|route|endpoint|resource).{0,60}(?:not found|does not exist|not exist)|unknown request url|"
    r"method not allowed|接口不存在|路径不存在|请求的(?:资源|路径|接口)|not support(?:ed)? (?:this )?(?:api|endpoint|path)|"
    r"\b(?:get|post)\b\W{0,3}/\S+.{0,20}(?:not found|not supported|unsupported)|endpoint is not supported",
    re.IGNORECASE,
)

_WAF_TITLE = re.compile(
    r"attention required|error code:? ?10\d\d|\b10[12]\d\b.{0,40}(?:cloudflare|access denied)|just a moment|"
    r"challenge-platform|cf-error|restrict(?:ed)? access|access denied|request (?:was )?(?:blocked|rejected|forbidden)|"
    r"incapsula|imperva|akamai|sucuri|\bwaf\b|web application firewall|blocked by|security (?:policy|service|check)|"
    r"errors\.aliyun|访问(?:被|已被)?(?:阻断|拦截|拒绝)|安全(?:策略|防护|拦截)|bot (?:detection|protection)|captcha|"
    r"you have been blocked|forbidden by|reference #[\d.a-f]+|checking your browser|ray id",
    re.IGNORECASE,
)
_WAF_SERVERS = re.compile(
    r"cloudflare|akamai|sucuri|imperva|incapsula|awselb|cloudfront|\bwaf\b|yunjiasu|ddos-guard|bigip|tengine|baidu",
    re.I,
)
_NOT_READY = re.compile(
    r"upstream connect error|no healthy upstream|connection (?:was )?refused|connect(?:ion)? (?:failure|failed)|bad gateway|"
    r"service (?:temporarily |is )?unavailable|(?:model|server|engine).{0,40}(?:loading|starting|warming|initiali[sz]ing|not ready)|"
    r"loading model|not ready|temporarily unavailable|启动中|加载中|preparing|prematurely closed|no live upstreams|"
    r"failed to connect|cannot connect|econnrefused|no server is available|dial tcp",
    re.IGNORECASE,
)
_GATEWAY_TIMEOUT = re.compile(
    r"gateway time-?out|upstream (?:request|response) time-?out|time-?out occurred|timed out.{0,40}upstream|"
    r"upstream.{0,40}timed? ?-?out|error code:? ?52[24]|request time-?out|read time-?out|stream timeout",
    re.IGNORECASE,
)


def family_of(reply: HttpReply, body: Body) -> Family:
    """What the error reply is about. Call it for replies that are no usable answer."""
    status = reply.status
    text = body.error.text if body.error and body.error.text else body.text
    if is_waf(reply, body):
        return "waf"
    if status in (504, 524, 522, 408, 598) or (status >= 500 and _GATEWAY_TIMEOUT.search(text)):
        return "gateway-timeout"
    if is_path_error(reply, body):
        return "path"
    if body.form != "html":
        for row in _ROWS:
            if (not row.statuses or status in row.statuses) and row.pattern.search(text):
                return row.family
    elif status in (401, 403):
        return "auth"
    elif status == 429:
        return "rate"
    elif status == 402:
        return "credits"
    if status == 422:
        return "schema"
    if status in (502, 503, 521, 523, 530) or (status >= 500 and _NOT_READY.search(text)):
        return "not-ready"
    if _is_schema(body):
        return "schema"
    return "server-error" if status >= 500 else "other"


def _is_schema(body: Body) -> bool:
    """FastAPI's list of `loc` and `msg`."""
    detail = body.value.get("detail") if isinstance(body.value, dict) else None
    return isinstance(detail, list) and bool(detail) and isinstance(detail[0], dict) and "loc" in detail[0]


def is_path_error(reply: HttpReply, body: Body) -> bool:
    """Whether the reply says that nothing is served at this path (as opposed to: no such model)."""
    if reply.status == 405:
        return True
    message = body.error.message if body.error else body.text
    if body.form == "error" and _PATH_404.search(message) and not _names_model(message):
        return reply.status in (200, 400, 403, 404, 405, 501)
    if reply.status == 404:
        if body.form in ("html", "empty"):
            return True
        return bool(body.form != "answer" and _PATH_404.search(message) and not _names_model(message))
    return reply.status == 501


def _names_model(message: str) -> bool:
    return bool(re.search(r"\bmodels?\b(?!/)|模型|deployment", message, re.IGNORECASE)) and not re.search(
        r"/models\b", message
    )


def is_waf(reply: HttpReply, body: Body) -> bool:
    """Whether a firewall in front answered instead of the API."""
    if reply.status not in (403, 503, 429, 405, 406, 418, 493) and not (reply.status == 200 and body.form == "html"):
        return False
    if reply.header("x-amzn-waf-action") or reply.header("cf-mitigated"):
        return True
    if body.form not in ("html", "text") or (reply.status == 200 and not reply.header("cf-ray")):
        return False
    if reply.status in (503, 429, 200):
        return bool(_WAF_TITLE.search(body.text)) and not _NOT_READY.search(body.text)
    named = bool(_WAF_SERVERS.search(reply.header("server")) or reply.header("cf-ray"))
    return bool(_WAF_TITLE.search(body.text)) or (named and reply.status == 403)
