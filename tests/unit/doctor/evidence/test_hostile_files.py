"""Files and variables of any shape: no check crashes, and no key is shown."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wizard.doctor.checks import config_claude, config_codex, config_others, env_keys, env_place, env_proxy
from wizard.doctor.places import PLACES
from wizard.problems import Problem

CHECKS = tuple(
    check
    for module in (config_codex, config_claude, config_others, env_keys, env_proxy, env_place)
    for check in module.CHECKS
)
KEY = "sk-ant-0123456789abcdefghij"
NAMES = """
model_providers model_provider mine env base_url env_key requires_openai_auth http_headers auth tokens access_token
OPENAI_API_KEY auth_mode openai ANTHROPIC_BASE_URL ANTHROPIC_AUTH_TOKEN ANTHROPIC_API_KEY claudeAiOauth Providers
accessToken api_base_url model_list litellm_params api_base model providers lastUsedProvider profiles
"""
WORDS = st.sampled_from(NAMES.split())
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.sampled_from(["", KEY, "http://[::1", "http://h:99999/v1", "http://h/v1/messages/", "{env:X}", "mine", "\n"]),
    st.text(max_size=5),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4), max_leaves=12
)
TEXTS = VALUES.map(json.dumps) | st.text(max_size=40)
VARIABLE_NAMES = "HTTP_PROXY no_proxy ALL_PROXY OPENAI_API_KEY OPENAI_BASE_URL ANTHROPIC_BASE_URL ANTHROPIC_API_KEY"
VARIABLES = st.sampled_from(VARIABLE_NAMES.split())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.dictionaries(st.sampled_from([place.path for place in PLACES]), TEXTS, max_size=4),
    env=st.dictionaries(VARIABLES, LEAVES.filter(lambda value: isinstance(value, str)), max_size=4),
    assumed=st.sampled_from([None, "container", "wsl", "host"]),
    url=st.sampled_from(["", "http://[::1", "http://h:8000", "x", "http://localhost:8000/v1/"]),
    client=st.sampled_from(["", "codex", "claude-code", "openai-sdk"]),
    probed=st.booleans(),
)
def test_no_check_crashes_and_no_key_is_shown(
    files: dict[str, str], env: dict[str, str], assumed: Any, url: str, client: str, probed: bool, look: Any
) -> None:
    seen = look(files, env, url, KEY if url else "", assumed=assumed, client_type=client, probed=probed)
    for check in CHECKS:
        verdict = check.judge(seen)
        found = (verdict,) if isinstance(verdict, Problem) else verdict if isinstance(verdict, tuple) else ()
        assert not any("0123456789abcdefghij" in str(problem.as_json()) for problem in found), check.id
