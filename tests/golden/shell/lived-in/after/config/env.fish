# Written by llm-setup; `llm-setup use NAME` changes it, `llm-setup clients restore shell` removes it.
set -gx OPENAI_BASE_URL 'https://gateway.example/api/v1'
set -gx OPENAI_API_KEY 'sk-golden-0123456789abcdef'
set -gx OPENAI_MODEL 'claude-sonnet-4-5'
set -gx ANTHROPIC_BASE_URL 'https://gateway.example/api'
set -gx ANTHROPIC_AUTH_TOKEN 'sk-golden-0123456789abcdef'
set -gx ANTHROPIC_MODEL 'claude-sonnet-4-5'
