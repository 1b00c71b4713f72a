# Written by llm-setup; `llm-setup use NAME` changes it, `llm-setup clients restore shell` removes it.
set -gx OPENAI_BASE_URL 'http://127.0.0.1:8000/v1'
set -gx OPENAI_API_KEY 'sk-golden-0123456789abcdef'
set -gx OPENAI_MODEL 'Qwen/Qwen3-8B'
set -gx ANTHROPIC_BASE_URL 'http://127.0.0.1:8000'
set -gx ANTHROPIC_AUTH_TOKEN 'sk-golden-0123456789abcdef'
set -gx ANTHROPIC_MODEL 'Qwen/Qwen3-8B'
