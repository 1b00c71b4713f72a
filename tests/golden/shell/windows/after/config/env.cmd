@rem Written by llm-setup; run it in cmd with: call PATH\env.cmd
@set "OPENAI_BASE_URL=http://127.0.0.1:8000/v1"
@set "OPENAI_API_KEY=sk-golden-0123456789abcdef"
@set "OPENAI_MODEL=Qwen/Qwen3-8B"
@set "ANTHROPIC_BASE_URL=http://127.0.0.1:8000"
@set "ANTHROPIC_AUTH_TOKEN=sk-golden-0123456789abcdef"
@set "ANTHROPIC_MODEL=Qwen/Qwen3-8B"
