setopt histignoredups
export EDITOR=vim
