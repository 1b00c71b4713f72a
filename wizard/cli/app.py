"""What every command shares: its surroundings, its options, and how it ends."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from wizard.effects.world import World, real_world
from wizard.problems import ReaderGoneError
from wizard.ui.language import ASKED, use_language
from wizard.ui.screen import Screen

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class App:
    """Surroundings of one command run: effects, screen, and the answers to "may I ask?"."""

    world: World
    screen: Screen
    yes: bool = False
    dry_run: bool = False

    @property
    def may_ask(self) -> bool:
        """Whether questions can be asked: a terminal on both sides, no `--yes`, no `--json`."""
        import sys

        return not self.yes and not self.screen.as_json and self.screen.interactive and sys.stdin.isatty()


def run_list(context: click.Context, listing: click.Command) -> int:
    """What a group does when it is named alone: run its `list`. Its exit code; 0 where a command of its own follows."""
    if context.invoked_subcommand is not None:
        return 0
    return int(context.invoke(listing, as_json=False, plain=False, lang=None) or 0)


def command_options(*, yes: bool = False, dry_run: bool = False) -> Callable[[F], F]:
    """Add `--json`, `--plain`, `--lang` and, where they mean something, `--yes` and `--dry-run`.

    The decorated function gets an `App` as its first argument and returns an exit code (None is 0).
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def run(
            *args: Any,
            as_json: bool,
            plain: bool,
            lang: str | None,
            yes: bool = False,
            dry_run: bool = False,
            **options: Any,
        ) -> Any:
            world = real_world()
            use_language(lang or click.get_current_context().meta.get(ASKED), world.env)
            screen = Screen(as_json=as_json, plain=plain or bool(world.env.get("LLM_SETUP_PLAIN")), env=world.env)
            try:
                return function(App(world, screen, yes, dry_run), *args, **options)
            except BrokenPipeError as error:
                raise ReaderGoneError from error

        decorated: Any = run
        if dry_run:
            decorated = click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")(
                decorated
            )
        if yes:
            decorated = click.option("--yes", "-y", is_flag=True, help="Take every recommended answer.")(decorated)
        decorated = click.option("--lang", metavar="LANG", help="Language: en, zh_CN (简体中文).")(decorated)
        decorated = click.option("--plain", is_flag=True, help="Plain lines: no colour, no symbols.")(decorated)
        decorated = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate
