"""Questions: each has a flag and a recommended answer; without a terminal the missing flag is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wizard.i18n import t
from wizard.problems import usage_error
from wizard.ui.screen import Screen


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer: its value, what is shown, and why it cannot be taken (empty: it can)."""

    value: str
    title: str
    disabled: str = ""


class Questions:
    """Asks on the terminal. `yes`: every recommended answer is taken, and said."""

    def __init__(self, screen: Screen, *, yes: bool, may_ask: bool) -> None:
        self._screen = screen
        self._yes = yes
        self._may_ask = may_ask

    def _answer_without_asking(self, flag: str, question: str, recommended: Any) -> bool:
        """True when `--yes` decides; a problem that names the flag when nobody can be asked."""
        if self._yes and recommended is not None:
            return True
        if not self._may_ask:
            raise usage_error(
                "missing-answer",
                t("This question needs an answer: {question}", question=question),
                t("Give it as `{flag}`, or take every recommended answer with `--yes`.", flag=flag),
                why=t("There is no terminal to ask on."),
            )
        return False

    def choose(self, flag: str, question: str, choices: Sequence[Choice], recommended: str) -> str:
        """One of several; the recommended one is preselected."""
        if self._answer_without_asking(flag, question, recommended):
            return recommended
        import questionary

        rows = [questionary.Choice(c.title, value=c.value, disabled=c.disabled or None) for c in choices]
        how = t("(arrow keys, then Enter)")
        asked = questionary.select(question, choices=rows, default=recommended, instruction=how)
        return str(_asked(asked.unsafe_ask))

    def several(
        self, flag: str, question: str, choices: Sequence[Choice], recommended: Sequence[str]
    ) -> tuple[str, ...]:
        """Any number of several."""
        if self._answer_without_asking(flag, question, tuple(recommended)):
            return tuple(recommended)
        import questionary

        rows = [
            questionary.Choice(c.title, value=c.value, checked=c.value in recommended, disabled=c.disabled or None)
            for c in choices
        ]
        how = t("(arrow keys to move, space to choose, Enter when done)")
        return tuple(_asked(questionary.checkbox(question, choices=rows, instruction=how).unsafe_ask))

    def text(self, flag: str, question: str, recommended: str | None = None) -> str:
        """A line of text."""
        if self._answer_without_asking(flag, question, recommended):
            return recommended or ""
        import questionary

        return str(_asked(questionary.text(question, default=recommended or "").unsafe_ask)).strip()

    def secret(self, flag: str, question: str) -> str:
        """A line that is not shown; empty when nothing was entered. Never asked with `--yes`."""
        if self._yes or not self._may_ask:
            return ""
        import questionary

        return str(_asked(questionary.password(question).unsafe_ask))

    def confirm(self, flag: str, question: str, *, recommended: bool = True) -> bool:
        """Yes or no."""
        if self._answer_without_asking(flag, question, recommended):
            return recommended
        import questionary

        return bool(_asked(questionary.confirm(question, default=recommended).unsafe_ask))


def _asked(ask: Callable[[], Any]) -> Any:
    """The answer. Ctrl-C and Ctrl-D leave: nothing more is asked."""
    try:
        return ask()
    except EOFError:
        raise KeyboardInterrupt from None
