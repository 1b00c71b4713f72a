"""The index that is read holds what the TOML files say."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[3]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_index_is_up_to_date_with_the_tables() -> None:
    """If this fails: run scripts/generate_catalogue_index.py."""
    wanted = script("generate_catalogue_index").indexes(ROOT / "wizard" / "catalog")
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
