autoload -U compinit
