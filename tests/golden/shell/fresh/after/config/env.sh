# Written by llm-setup; `llm-setup use NAME` changes it, `llm-setup clients restore shell` removes it.
export OPENAI_BASE_URL=http://127.0.0.1:8000/v1
export OPENAI_API_KEY=sk-golden-0123456789abcdef
export OPENAI_MODEL=Qwen/Qwen3-8B
export ANTHROPIC_BASE_URL=http://127.0.0.1:8000
export ANTHROPIC_AUTH_TOKEN=sk-golden-0123456789abcdef
export ANTHROPIC_MODEL=Qwen/Qwen3-8B
