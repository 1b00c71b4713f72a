"""Makes the site's navigation from the folders of docs/ when MkDocs reads its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TITLES = {
    "en": {
        "tutorial": "Tutorial",
        "how-to": "How-to",
        "tasks": "Tasks",
        "clients": "Clients",
        "gateways": "Gateways and servers",
        "reference": "Reference",
        "explanation": "Explanation",
        "decisions": "Decisions",
    },
    "zh": {
        "tutorial": "教程",
        "how-to": "操作指南",
        "tasks": "任务",
        "clients": "客户端",
        "gateways": "网关与服务器",
        "reference": "参考",
        "explanation": "原理说明",
        "decisions": "设计决定",
    },
}


def on_config(config: Any) -> Any:
    """Set `nav`, and what its sections are called in Chinese."""
    docs = Path(config["docs_dir"])
    english = TITLES["en"]
    how_to = _pages(docs, "how-to")
    clients = [page for page in how_to if "/connect-" in page]
    gateways = [page for page in how_to if "/use-" in page]
    tasks = [page for page in how_to if page not in clients and page not in gateways]
    config["nav"] = [
        "README.md",
        {english["tutorial"]: _pages(docs, "tutorial")},
        {
            english["how-to"]: [
                {english["tasks"]: tasks},
                {english["clients"]: clients},
                {english["gateways"]: gateways},
            ]
        },
        {english["reference"]: [*_pages(docs, "reference"), "reference/problems/README.md"]},
        {
            english["explanation"]: [
                *_pages(docs, "explanation"),
                {english["decisions"]: _pages(docs, "explanation/decisions")},
            ]
        },
    ]
    for language in config["plugins"]["i18n"].config.languages:
        if language.locale == "zh":
            language.nav_translations = {english[key]: title for key, title in TITLES["zh"].items()}
    return config


def _pages(docs: Path, folder: str) -> list[str]:
    """The English pages directly in a folder; the plugin puts those of other languages in their place."""
    return sorted(
        path.relative_to(docs).as_posix() for path in (docs / folder).glob("*.md") if not path.stem.endswith(".zh")
    )
