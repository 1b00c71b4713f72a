# Written by llm-setup; `llm-setup use NAME` changes it, `llm-setup clients restore shell` removes it.
$env:OPENAI_BASE_URL = 'http://127.0.0.1:8000/v1'
$env:OPENAI_API_KEY = 'sk-golden-0123456789abcdef'
$env:OPENAI_MODEL = 'Qwen/Qwen3-8B'
$env:ANTHROPIC_BASE_URL = 'http://127.0.0.1:8000'
$env:ANTHROPIC_AUTH_TOKEN = 'sk-golden-0123456789abcdef'
$env:ANTHROPIC_MODEL = 'Qwen/Qwen3-8B'
