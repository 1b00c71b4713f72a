# Written by llm-setup; `llm-setup use NAME` changes it, `llm-setup clients restore shell` removes it.
$env:OPENAI_BASE_URL = 'https://gateway.example/api/v1'
$env:OPENAI_API_KEY = 'sk-golden-0123456789abcdef'
$env:OPENAI_MODEL = 'claude-sonnet-4-5'
$env:ANTHROPIC_BASE_URL = 'https://gateway.example/api'
$env:ANTHROPIC_AUTH_TOKEN = 'sk-golden-0123456789abcdef'
$env:ANTHROPIC_MODEL = 'claude-sonnet-4-5'
