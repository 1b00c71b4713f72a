"""How a value is written into each kind of file. Templates may print a value only through one of these."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from urllib.parse import quote

from wizard.clients.formats.lines import quote_dotenv


class Quoted(str):
    """Text that went through a quoting filter; the renderer lets nothing else out."""

    __slots__ = ()


def quote_sh(value: str) -> str:
    """One word for bash and zsh, byte for byte."""
    return value if re.fullmatch(r"[A-Za-z0-9_./:@%+,=-]+", value) else "'" + value.replace("'", "'\\''") + "'"


def quote_sh_words(words: Sequence[str]) -> str:
    """A command line for a POSIX shell."""
    return " ".join(map(quote_sh, words))


def quote_sh_twice(value: str) -> str:
    """One word for a POSIX shell, whose reader expands the value once more as a shell does inside double quotes: Crush
    does so with keys and URLs (its `internal/config/resolve.go`, 2026-08-21)."""
    return quote_sh(re.sub(r"([\\$`])", r"\\\1", value))


def quote_fish(value: str) -> str:
    """One word for fish, in whose single quotes a backslash and a quote are escaped."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_powershell(value: str) -> str:
    """One literal string for PowerShell, which takes typographic quotes for quotes too."""
    return "'" + re.sub("(['\u2018\u2019\u201a\u201b])", r"\1\1", value) + "'"


def quote_cmd(value: str) -> str:
    """The value inside `set "NAME=value"` of a batch file. Percent signs are doubled; cmd cannot hold a line end."""
    return value.replace("%", "%%").replace("\r", "").replace("\n", "")


def quote_json(value: object) -> str:
    """A JSON value; also a YAML flow scalar."""
    return json.dumps(value, ensure_ascii=False)


def quote_toml(value: object) -> str:
    """A TOML value."""
    from wizard.clients.formats.toml_text import render_value

    return render_value(value)


def quote_toml_key(value: str) -> str:
    """A TOML key, bare where it may be."""
    from wizard.clients.formats.toml_text import render_key

    return render_key(value)


def quote_yaml(value: object) -> str:
    """A YAML scalar that YAML 1.1 and 1.2 read alike."""
    from wizard.clients.formats.yaml_text import render_scalar

    return render_scalar(value)


def quote_url(value: str) -> str:
    """Percent-encoded, for one value in a URL's query."""
    return quote(value, safe="")


def quote_curl(value: str) -> str:
    """The inside of double quotes in a curl config file."""
    return (
        value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    )


def verbatim(value: object) -> str:
    """For one argument or environment variable, which no shell reads."""
    return str(value)


FILTERS: dict[str, Callable[..., str]] = {
    "json": quote_json,
    "toml": quote_toml,
    "toml_key": quote_toml_key,
    "yaml": quote_yaml,
    "sh": quote_sh,
    "sh_words": quote_sh_words,
    "sh_twice": quote_sh_twice,
    "fish": quote_fish,
    "powershell": quote_powershell,
    "cmd": quote_cmd,
    "dotenv": quote_dotenv,
    "url": quote_url,
    "curl": quote_curl,
    "verbatim": verbatim,
}
