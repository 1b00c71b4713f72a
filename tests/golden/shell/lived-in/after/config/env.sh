# Written by llm-setup; `llm-setup use NAME` changes it, `llm-setup clients restore shell` removes it.
export OPENAI_BASE_URL=https://gateway.example/api/v1
export OPENAI_API_KEY=sk-golden-0123456789abcdef
export OPENAI_MODEL=claude-sonnet-4-5
export ANTHROPIC_BASE_URL=https://gateway.example/api
export ANTHROPIC_AUTH_TOKEN=sk-golden-0123456789abcdef
export ANTHROPIC_MODEL=claude-sonnet-4-5
