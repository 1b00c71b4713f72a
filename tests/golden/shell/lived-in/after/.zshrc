autoload -U compinit

# >>> llm-setup >>>
if [ -r /place/state/config/env.sh ]; then . /place/state/config/env.sh; fi
# <<< llm-setup <<<
