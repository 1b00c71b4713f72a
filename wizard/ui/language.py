"""Which language messages are in: `--lang`, else `LLM_SETUP_LANG`, else the locale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from wizard.i18n import use_translation

LOCALES = Path(__file__).parent.parent / "locales"


def use_language(lang: str | None, env: Mapping[str, str]) -> None:
    """Load the catalogue for the language; English where there is none."""
    chosen = lang or env.get("LLM_SETUP_LANG") or env.get("LC_ALL") or env.get("LC_MESSAGES") or env.get("LANG") or "en"
    name = chosen.split(".")[0].replace("-", "_")
    if name.lower().startswith(("en", "c", "posix")) or not LOCALES.exists():
        use_translation(None)
        return
    import gettext

    names = [name, name.split("_")[0], *(["zh_CN"] if name.startswith("zh") else [])]
    found = gettext.translation("llm-setup", LOCALES, languages=names, fallback=True)
    use_translation(found.gettext)
