"""Messages for people: `t("Port {port} is taken", port=8000)`.

The English text is the message's id. Catalogues (gettext) replace it by locale or `--lang`; extraction looks for `t`.
"""

from __future__ import annotations

from collections.abc import Callable

_translate: Callable[[str], str] | None = None


def use_translation(translate: Callable[[str], str] | None) -> None:
    """Set where texts are looked up; `None` is English."""
    global _translate
    _translate = translate


def translated() -> bool:
    """Whether messages are in another language than English."""
    return _translate is not None


def t(text: str, /, **values: object) -> str:
    """The text in the user's language with `values` put in; not formatted without values, so braces are safe."""
    if _translate is not None:
        text = _translate(text)
    return text.format(**values) if values else text
