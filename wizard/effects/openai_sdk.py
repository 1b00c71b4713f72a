"""A question through the openai SDK itself: what most programs do with the triple."""

from __future__ import annotations

import time
from dataclasses import dataclass

from wizard.secret import Secret, redact

# The SDK refuses to be made without a key; servers that ask for none take any.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class SdkAnswer:
    """What the SDK handed to its caller. error: the exception as a program would see it, without the key."""

    text: str
    completion_tokens: int | None
    error: str
    elapsed_s: float


def ask_openai_sdk(
    base_url: str,
    model: str,
    key: Secret | None,
    prompt: str,
    *,
    direct: bool,
    max_tokens: int = 16,
    timeout_s: float = 60.0,
) -> SdkAnswer:
    """Stream one short chat with `openai.OpenAI(base_url=..., api_key=...)`. Never raises for what the server does.

    direct: past the proxies that the environment names.
    """
    import httpx2
    import openai

    begun = time.monotonic()
    text, tokens = "", None
    try:
        with (
            # Nothing is retried: what fails once has failed.
            httpx2.Client(timeout=httpx2.Timeout(timeout_s, connect=4.0), trust_env=not direct) as http,
            openai.OpenAI(
                base_url=base_url, api_key=key.reveal() if key else _NO_KEY, max_retries=0, http_client=http
            ) as client,
            client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": prompt}],
                max_tokens=max_tokens,
                stream=True,
                stream_options={"include_usage": True},
            ) as stream,
        ):
            for chunk in stream:
                if chunk.choices and chunk.choices[0].delta.content:
                    text += chunk.choices[0].delta.content
                if chunk.usage:
                    tokens = chunk.usage.completion_tokens
    except Exception as error:
        # A program that uses the SDK meets openai's own errors, and TypeError or KeyError for bodies of another shape.
        return SdkAnswer(text, tokens, redact(f"{type(error).__name__}: {error}"), time.monotonic() - begun)
    return SdkAnswer(text, tokens, "", time.monotonic() - begun)
