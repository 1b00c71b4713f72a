"""Questions: each has a flag and a recommended answer; without a terminal the missing flag is named.

On a terminal with symbols they are lists to move in (questionary); with `--plain`, on a dumb terminal and where symbols
cannot be shown they are numbered lines, answered by a line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from wizard.i18n import t
from wizard.problems import usage_error
from wizard.text import display_width, shorten, wrap
from wizard.ui.screen import Screen

# The value of the row that goes back; no answer of ours begins so.
_BACK = "\0back"
# Pointer, indicator and the blanks about them, before each row.
_ROW_INDENT = 6
# A key press of Esc is told from an arrow key (which begins with it) by nothing following: seconds.
_ESCAPE_WAIT_S = 0.15

# From so many rows on, a part of the name narrows them.
_MANY = 14

Check = Callable[[str], str]


class BackRequested(Exception):
    """The question before is to be asked again."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer: its value, what is shown, and why it cannot be taken (empty: it can)."""

    value: str
    title: str
    disabled: str = ""


class Questions:
    """Asks on the terminal. `yes`: every recommended answer is taken, and said.

    may_go_back: adds a way back to a question; taking it raises BackRequested. Ctrl-C and Ctrl-D leave.
    """

    def __init__(self, screen: Screen, *, yes: bool, may_ask: bool) -> None:
        self._screen = screen
        self._yes = yes
        self.may_ask = may_ask and not yes

    @property
    def _by_lines(self) -> bool:
        return not self._screen.symbols or os.environ.get("TERM") == "dumb"

    def _answer_without_asking(self, flag: str, question: str, recommended: Any) -> bool:
        """True when `--yes` decides; a problem that names the flag when nobody can be asked."""
        if self._yes and recommended is not None:
            return True
        if not self.may_ask:
            raise usage_error(
                "missing-answer",
                t("This question needs an answer: {question}", question=question),
                t("Give it as `{flag}`, or take every recommended answer with `--yes`.", flag=flag),
                why=t("There is no terminal to ask on."),
            )
        return False

    def choose(
        self,
        flag: str,
        question: str,
        choices: Sequence[Choice],
        recommended: str | None,
        *,
        may_go_back: bool = False,
    ) -> str:
        """One of several; the recommended one is preselected. None: `--yes` is no answer to it."""
        if self._answer_without_asking(flag, question, recommended):
            return recommended or ""
        rows = [*choices, *([Choice(_BACK, t("Back"))] if may_go_back else [])]
        chosen = (
            self._choose_by_line(question, rows, recommended)
            if self._by_lines
            else self._select(question, rows, recommended, may_go_back)
        )
        if chosen == _BACK:
            raise BackRequested
        self._answered(question, next(row.title for row in rows if row.value == chosen))
        return chosen

    def _select(self, question: str, rows: Sequence[Choice], recommended: str | None, may_go_back: bool) -> str:
        import questionary

        many = len(rows) > _MANY
        how = t("(arrow keys or a part of the name, then Enter)") if many else t("(arrow keys, then Enter)")
        shown, how = self._fitted(question, how)
        asked = questionary.select(
            shown,
            choices=self._rows(rows),
            default=recommended,
            instruction=how,
            use_search_filter=many,
            use_jk_keys=not many,
            **self._manner(),
        )
        _refuse_what_is_not_there(asked)
        return str(_ask(asked, may_go_back))

    def several(
        self,
        flag: str,
        question: str,
        choices: Sequence[Choice],
        recommended: Sequence[str],
        *,
        may_go_back: bool = False,
    ) -> tuple[str, ...]:
        """Any number of several."""
        if self._answer_without_asking(flag, question, tuple(recommended)):
            return tuple(recommended)
        if self._by_lines:
            chosen = self._several_by_line(question, choices, recommended, may_go_back)
        else:
            import questionary

            how = t("(arrow keys to move, space to choose, Enter when done)")
            if may_go_back:
                how = t("(arrow keys to move, space to choose, Enter when done, Esc to go back)")
            shown, how = self._fitted(question, how)
            asked = questionary.checkbox(
                shown,
                choices=self._rows(choices, recommended),
                instruction=how,
                **self._manner(),
            )
            chosen = tuple(_ask(asked, may_go_back))
        titles = [choice.title for choice in choices if choice.value in chosen]
        self._answered(question, ", ".join(titles) or t("none"))
        return chosen

    def text(
        self,
        flag: str,
        question: str,
        recommended: str | None = None,
        *,
        check: Check | None = None,
        may_go_back: bool = False,
    ) -> str:
        """A line of text. check: gives what is wrong with a line, empty for nothing; it is asked again until then."""
        if self._answer_without_asking(flag, question, recommended):
            return recommended or ""
        if self._by_lines:
            return self._line_until(question, recommended or "", check or _anything, may_go_back)
        import questionary

        shown, how = self._fitted(question, t("(Esc to go back)") if may_go_back else "")
        asked = questionary.text(
            shown,
            default=recommended or "",
            instruction=how or None,
            validate=lambda line: (check or _anything)(line.strip()) or True,
            **self._manner(),
        )
        said = str(_ask(asked, may_go_back)).strip()
        self._answered(question, said)
        return said

    def secret(self, flag: str, question: str, *, may_go_back: bool = False) -> str:
        """A line that is not shown; empty when nothing was entered. Never asked with `--yes`."""
        if not self.may_ask:
            return ""
        if self._by_lines:
            self._screen.line(question + (f" {_line_back()}" if may_go_back else "") + ":")
            said = _ask_hidden().strip()
            if may_go_back and said == "<":
                raise BackRequested
            return said
        import questionary

        shown, how = self._fitted(question, t("(Esc to go back)") if may_go_back else "")
        asked = questionary.password(f"{shown} {how}".rstrip(), **self._manner())
        return str(_ask(asked, may_go_back))

    def confirm(self, flag: str, question: str, *, recommended: bool = True, may_go_back: bool = False) -> bool:
        """Yes or no."""
        if self._answer_without_asking(flag, question, recommended):
            return recommended
        if self._by_lines:
            rows = [Choice("yes", t("Yes")), Choice("no", t("No"))]
            rows += [Choice(_BACK, t("Back"))] if may_go_back else []
            line = self._choose_by_line(question, rows, "yes" if recommended else "no")
            if line == _BACK:
                raise BackRequested
            return line == "yes"
        import questionary

        how = t("(Y/n)") if recommended else t("(y/N)")
        if may_go_back:
            how = t("(Y/n, Esc to go back)") if recommended else t("(y/N, Esc to go back)")
        shown, how = self._fitted(question, how)
        # A letter alone decides nothing: what is typed is read to its end.
        asked = questionary.text(
            shown,
            instruction=how,
            validate=lambda line: _meant(line, recommended) is not None or t("Type y or n, then Enter."),
            **self._manner(),
        )
        said = bool(_meant(str(_ask(asked, may_go_back)), recommended))
        self._answered(question, t("Yes") if said else t("No"))
        return said

    # -- on a terminal with symbols -------------------------------------------------------------------------------

    def _manner(self) -> dict[str, Any]:
        """The terminal's own colours, which its user can read on its background; none where none are wanted. What was
        asked is taken away afterwards, and said again as one line in the user's language."""
        from prompt_toolkit.output.color_depth import ColorDepth
        from prompt_toolkit.styles import Style

        style = Style(
            [
                ("qmark", "ansicyan bold"),
                ("question", "bold"),
                ("answer", "bold"),
                ("pointer", "ansicyan bold"),
                ("highlighted", "bold"),
                ("selected", "noreverse"),
                ("instruction", ""),
                ("disabled", "italic"),
                ("validation-toolbar", "bold noreverse"),
                ("bottom-toolbar", "noreverse"),
            ]
        )
        manner: dict[str, Any] = {"style": style, "erase_when_done": True}
        if not self._screen.colour:
            manner["color_depth"] = ColorDepth.DEPTH_1_BIT
        return manner

    def _rows(self, choices: Sequence[Choice], checked: Sequence[str] | None = None) -> list[Any]:
        import questionary

        room = self._screen.columns - _ROW_INDENT
        rows = []
        for choice in choices:
            why = shorten(choice.disabled, room // 2)
            rows.append(
                questionary.Choice(
                    shorten(choice.title, room - (display_width(why) + 3 if why else 0)),
                    value=choice.value,
                    checked=checked is not None and choice.value in checked,
                    disabled=why or None,
                )
            )
        return rows

    def _fitted(self, question: str, how: str) -> tuple[str, str]:
        """The question, and how it is answered, with line ends where the terminal's width wants them."""
        room = self._screen.columns - 1
        if display_width(f"? {question} {how}") <= room:
            return question, how
        asked = "\n  ".join(wrap(question, room - 2))
        return asked, "\n  " + "\n  ".join(wrap(how, room - 2)) if how else ""

    def _answered(self, question: str, said: str) -> None:
        self._screen.say(f"{question} {self._screen.paint(said, '1')}", "? ", "  ")

    # -- by lines -------------------------------------------------------------------------------------------------

    def _choose_by_line(self, question: str, rows: Sequence[Choice], recommended: str | None) -> str:
        listed = list(rows)
        self._show_numbered(question, listed)
        while True:
            usual = next((at for at, row in enumerate(listed, 1) if row.value == recommended), 1)
            hint = t("Number, or Enter for {number}:", number=usual)
            if len(rows) > _MANY:
                hint = t("Number, a part of the name, or Enter for {number}:", number=usual)
            self._screen.line(hint)
            said = _ask_line() or str(usual)
            if _is_back(said) and any(row.value == _BACK for row in rows):
                return _BACK
            if said == "?":
                self._screen.say(t("Type the number of a row and press Enter; Ctrl-C leaves."))
                continue
            row = listed[int(said) - 1] if said.isdecimal() and 0 < int(said) <= len(listed) else None
            if row is not None and not row.disabled:
                return row.value
            found = [row for row in rows if said.lower() in row.title.lower()] if len(rows) > _MANY else []
            if found and row is None:
                listed = found
                self._show_numbered(question, listed)
            else:
                self._screen.line(t("A number from 1 to {last} is needed.", last=len(listed)))

    def _several_by_line(
        self, question: str, choices: Sequence[Choice], recommended: Sequence[str], may_go_back: bool
    ) -> tuple[str, ...]:
        self._show_numbered(question, choices)
        usual = ", ".join(str(at) for at, row in enumerate(choices, 1) if row.value in recommended)
        if may_go_back:
            self._screen.line(_line_back())
        while True:
            how = t("Numbers with commas between them, or Enter for none:")
            if usual:
                how = t("Numbers with commas between them, 0 for none, or Enter for {numbers}:", numbers=usual)
            self._screen.line(how)
            said = _ask_line() or usual
            if may_go_back and _is_back(said):
                raise BackRequested
            if said == "?":
                self._screen.say(t("Type the numbers of all rows that you want, as in `1, 3`; Ctrl-C leaves."))
                continue
            numbers = [word.strip() for word in said.replace("，", ",").split(",") if word.strip()]
            if all(word.isdecimal() and int(word) <= len(choices) for word in numbers):
                chosen = {int(word) for word in numbers}
                return tuple(c.value for at, c in enumerate(choices, 1) if at in chosen and not c.disabled)
            self._screen.line(t("Numbers from 1 to {last} are needed.", last=len(choices)))

    def _line_until(self, question: str, recommended: str, check: Check, may_go_back: bool) -> str:
        while True:
            usual = t("Enter for {answer}", answer=recommended) if recommended else ""
            hints = " ".join(
                part for part in (f"({usual})" if usual else "", _line_back() if may_go_back else "") if part
            )
            self._screen.say(f"{question} {hints}".strip() + ":")
            said = _ask_line() or recommended
            if may_go_back and said == "<":
                raise BackRequested
            if said == "?":
                self._screen.say(t("Type the answer and press Enter; Ctrl-C leaves."))
                continue
            wrong = check(said)
            if not wrong:
                return said
            self._screen.line(wrong)

    def _show_numbered(self, question: str, rows: Sequence[Choice]) -> None:
        self._screen.say(question)
        for at, row in enumerate(rows, 1):
            why = t(", not possible: {why}", why=row.disabled) if row.disabled else ""
            self._screen.say(f"{row.title}{why}", f"{at:3}. ", "     ")


def _anything(line: str) -> str:
    return ""


def _meant(line: str, recommended: bool) -> bool | None:
    """Yes or no, as a line says it; None where it says neither."""
    word = line.strip().lower()
    if not word:
        return recommended
    if word in ("y", "yes", t("Yes").lower()):
        return True
    return False if word in ("n", "no", t("No").lower()) else None


def _line_back() -> str:
    return t("(type < to go back)")


def _is_back(line: str) -> bool:
    """Whether a line is no number, and means back; a line of text may well be such a word."""
    return line == "<" or line.lower() in ("b", "back", t("Back").lower())


def _ask_line() -> str:
    """A line from the terminal. Its end (Ctrl-D) leaves, as Ctrl-C does."""
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip()


def _ask_hidden() -> str:
    import getpass

    try:
        return getpass.getpass("")
    except EOFError:
        raise KeyboardInterrupt from None


def _ask(question: Any, may_go_back: bool) -> Any:
    """The answer. Ctrl-C and Ctrl-D leave: nothing more is asked."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings

    application = question.application
    keys = KeyBindings()
    # Lists know no Ctrl-D; in a line of text it deletes, as long as there is something.
    nothing_typed = Condition(lambda: not application.current_buffer.text)
    keys.add("c-d", eager=True, filter=nothing_typed)(lambda event: event.app.exit(exception=EOFError()))

    @keys.add("escape", eager=True)
    def go_back(event: Any) -> None:
        # Where there is no way back Esc is taken all the same: left to the next key, the two would be one that
        # answers with the empty line below the list.
        if may_go_back:
            event.app.exit(exception=BackRequested())

    application.ttimeoutlen = _ESCAPE_WAIT_S
    application.key_bindings = merge_key_bindings([application.key_bindings, keys])
    try:
        return question.unsafe_ask()
    except EOFError:
        raise KeyboardInterrupt from None


def _refuse_what_is_not_there(question: Any) -> None:
    """In a list that is narrowed: what nothing has in its name is said, and Enter takes no row for it, nor one that
    cannot be taken. Left alone, the list shows all its rows then, and Enter takes the first."""
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.key_binding import KeyBindings, merge_key_bindings
    from prompt_toolkit.layout.controls import FormattedTextControl
    from questionary.prompts.common import InquirerControl

    application = question.application
    controls = list(application.layout.find_all_controls())
    rows: Any = next(control for control in controls if isinstance(control, InquirerControl))

    def nothing() -> bool:
        word = (rows.search_filter or "").lower()
        return bool(word) and not any(word in row.title.lower() for row in rows.choices)

    draw_rows = rows.text

    def shown_rows() -> Any:
        return [] if nothing() else draw_rows()

    def shown_word() -> Any:
        if not nothing():
            return rows.get_search_string_tokens()
        return [
            ("", "\n"),
            ("", t("Nothing has `{word}` in its name; Backspace takes it back.", word=rows.search_filter)),
        ]

    for control in controls:
        if isinstance(control, FormattedTextControl) and control.text == rows.get_search_string_tokens:
            control.text = shown_word
    rows.text = shown_rows
    keys = KeyBindings()
    keys.add("enter", eager=True, filter=Condition(lambda: nothing() or bool(rows.get_pointed_at().disabled)))(
        lambda event: None
    )
    application.key_bindings = merge_key_bindings([application.key_bindings, keys])
