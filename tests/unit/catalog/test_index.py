"""The index that is read holds what the TOML files say."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def test_the_index_is_up_to_date_with_the_tables(load_script: Callable[[str], ModuleType]) -> None:
    """If this fails: run scripts/generate_catalogue_index.py."""
    wanted = load_script("generate_catalogue_index").indexes(ROOT / "wizard" / "catalog")
    stale = [path.name for path, content in wanted.items() if path.read_text(encoding="utf-8") != content]
    assert stale == []


def test_every_fact_file_lies_at_the_hubs_path() -> None:
    import tomllib

    folder = ROOT / "wizard" / "catalog" / "models"
    wrong = [
        str(path)
        for path in folder.rglob("*.toml")
        if f"{tomllib.loads(path.read_text(encoding='utf-8'))['id']}.toml" != path.relative_to(folder).as_posix()
    ]
    assert wrong == []
