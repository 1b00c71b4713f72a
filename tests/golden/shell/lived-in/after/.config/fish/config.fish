set -g fish_greeting

# >>> llm-setup >>>
test -r '/place/state/config/env.fish'; and source '/place/state/config/env.fish'
# <<< llm-setup <<<
