"""The generated reference says what the application says."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    """If this fails: run scripts/generate_reference.py."""
    spec = importlib.util.spec_from_file_location("generate_reference", ROOT / "scripts" / "generate_reference.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert len(script.all_pages()) >= 3
    assert sorted(str(path.relative_to(ROOT)) for path in script.stale_pages()) == []
