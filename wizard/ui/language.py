"""Which language messages are in: `--lang`, else `LLM_SETUP_LANG`, else the locale. English loads nothing."""

# pathlib alone would take a tenth of the time of `--help`.
# ruff: noqa: PTH100, PTH112, PTH113, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import struct
from collections.abc import Mapping

from wizard.i18n import use_translation

LOCALES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "locales")
# Where `llm-setup --lang X COMMAND` leaves X for the command (click's Context.meta).
ASKED = "llm-setup.language"
_ENGLISH = ("en", "c", "posix")


def use_language(lang: str | None, env: Mapping[str, str]) -> str:
    """Take the messages of the language; English where there are none.

    Returns the language that was asked for by name (by `--lang` or LLM_SETUP_LANG) and is not there; else "".
    A locale without messages is no request, and gets English silently.
    """
    asked = lang or env.get("LLM_SETUP_LANG") or ""
    for name in [asked] if asked else _locale_languages(env):
        language = find_language(name)
        if language is not None:
            use_translation(Catalogue(_path(language)).lookup if language != "en" else None)
            return ""
    use_translation(None)
    return asked


def find_language(name: str) -> str | None:
    """The catalogue for a name such as zh_CN.UTF-8, zh-Hans or zh; "en" for English; None where there is none."""
    plain = name.split(".")[0].split("@")[0].replace("-", "_")
    root = plain.split("_")[0].lower()
    if root in _ENGLISH:
        return "en"
    known = languages()
    return next((k for k in known if k.lower() == plain.lower()), None) or next(
        (k for k in known if k.split("_")[0].lower() == root), None
    )


def languages() -> list[str]:
    """The languages that have a catalogue, English not among them."""
    if not os.path.isdir(LOCALES):
        return []
    return sorted(name for name in os.listdir(LOCALES) if os.path.isfile(_path(name)))


def _path(language: str) -> str:
    return os.path.join(LOCALES, language, "LC_MESSAGES", "llm-setup.mo")


def _locale_languages(env: Mapping[str, str]) -> list[str]:
    """As gettext reads the environment: LANGUAGE is a list, and counts only where the locale is not C."""
    locale = env.get("LC_ALL") or env.get("LC_MESSAGES") or env.get("LANG") or "C"
    if find_language(locale) == "en" and not locale.lower().startswith("en"):
        return []
    return [*(name for name in env.get("LANGUAGE", "").split(":") if name), locale]


class Catalogue:
    """A compiled catalogue (.mo) in which texts are looked up one by one.

    gettext's own reader decodes every message at once, which takes longer than the rest of `--help`; the file's table
    of messages is sorted, so that a text is found by halving (GNU gettext manual, "The Format of GNU MO Files").
    """

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            self._data = file.read()
        magic, _, self._count, self._texts, self._translations = struct.unpack_from("<5I", self._data)
        if magic != 0x950412DE:
            raise ValueError(f"{path} is no catalogue")

    def lookup(self, text: str) -> str:
        """The translation; the text itself where there is none."""
        wanted = text.encode()
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            here = self._entry(self._texts, middle)
            if here == wanted:
                # An empty text is the key of the catalogue's header.
                return self._entry(self._translations, middle).decode() if wanted else text
            if here < wanted:
                low = middle + 1
            else:
                high = middle
        return text

    def _entry(self, table: int, place: int) -> bytes:
        length, offset = struct.unpack_from("<2I", self._data, table + 8 * place)
        return self._data[offset : offset + length]
