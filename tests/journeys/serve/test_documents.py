"""What the commands around a server print with `--json` is as the published schemas say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from .conftest import Place

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"


def check(name: str, text: str) -> Any:
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    document = json.loads(text)
    jsonschema.Draft202012Validator(schema).validate(document)
    return document


def test_documents_of_a_server_that_lives_and_one_that_died(place: Place) -> None:
    check("serve", place.serve("--json").stdout)
    assert check("status", place.run("status", "--json").stdout)["servers"][0]["state"] == "ready"
    check("logs", place.run("logs", "--json").stdout)
    assert check("watch", place.run("watch", "--once", "--json").stdout)["servers"]
    assert check("stop", place.run("stop", "--json").stdout)["stopped"] == ["local"]
    check("error", place.serve("--json", standin="die=boom").stdout)
    assert check("status", place.run("status", "--json").stdout)["servers"]
