# ~/.bashrc
case $- in *i*) ;; *) return;; esac
alias ll="ls -l"
export EDITOR=vim
