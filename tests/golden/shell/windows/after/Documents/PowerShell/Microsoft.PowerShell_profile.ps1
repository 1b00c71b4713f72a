# >>> llm-setup >>>
if (Test-Path -LiteralPath '/place/state/config/env.ps1') { . '/place/state/config/env.ps1' }
# <<< llm-setup <<<
