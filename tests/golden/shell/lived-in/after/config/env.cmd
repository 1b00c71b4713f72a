@rem Written by llm-setup; run it in cmd with: call PATH\env.cmd
@set "OPENAI_BASE_URL=https://gateway.example/api/v1"
@set "OPENAI_API_KEY=sk-golden-0123456789abcdef"
@set "OPENAI_MODEL=claude-sonnet-4-5"
@set "ANTHROPIC_BASE_URL=https://gateway.example/api"
@set "ANTHROPIC_AUTH_TOKEN=sk-golden-0123456789abcdef"
@set "ANTHROPIC_MODEL=claude-sonnet-4-5"
