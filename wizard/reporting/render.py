"""A report into one file: HTML that loads nothing from anywhere, or Markdown. No key gets through."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wizard.i18n import t
from wizard.reporting.content import Report
from wizard.secret import redact

if TYPE_CHECKING:
    import jinja2

# By this a file is known to be ours, and may be replaced.
GENERATOR = "llm-setup report"


def render_html(report: Report, template: str, *, language: str = "en", home: str = "") -> str:
    """One HTML document. home: the user's folder, which is written as `~`. Raises jinja2's errors for a wrong
    template."""
    return _environment(home, escape=True).from_string(template).render(
        report=report, language=language, generator=GENERATOR, t=t
    )  # fmt: skip


def render_markdown(report: Report, template: str, *, home: str = "") -> str:
    """The same as Markdown."""
    text = _environment(home, escape=False).from_string(template).render(report=report, generator=GENERATOR, t=t)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def _environment(home: str, *, escape: bool) -> jinja2.Environment:
    import jinja2
    from markupsafe import Markup

    clean = _cleaner(home)

    def inline(value: Any) -> Any:
        """Markdown lets markup through, and values hold what servers said."""
        if not isinstance(value, str) or hasattr(value, "__html__"):
            return value
        return re.sub(r"\s+", " ", clean(value)).replace("<", "&lt;")

    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=escape,
        finalize=clean if escape else inline,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = lambda value: Markup(str(inline(value)).replace("|", "\\|"))
    # What stands in a fence must not end it.
    environment.filters["fenced"] = lambda value: Markup(str(clean(value)).replace("```", "` ` `"))
    return environment


def _cleaner(home: str) -> Callable[[Any], Any]:
    """Every text that a template prints: without keys, and with the home folder as `~`."""

    def clean(value: Any) -> Any:
        if not isinstance(value, str) or hasattr(value, "__html__"):
            return value
        text = redact(value)
        return re.sub(rf"{re.escape(home)}(?=/|\b|$)", "~", text) if len(home) > 1 else text

    return clean
