set -g fish_greeting
