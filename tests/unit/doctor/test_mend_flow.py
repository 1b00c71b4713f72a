"""`doctor --fix`: what did not help is taken back, byte for byte."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from wizard.doctor.causes import found
from wizard.doctor.engine import Diagnosis
from wizard.doctor.observations import Context, Observations
from wizard.flows import mend as mending
from wizard.flows.doctor import DoctorOptions, Report, run_doctor
from wizard.flows.mend import mend
from wizard.ui.screen import Screen

from .conftest import HOST, FakeHttp, fake_world, models, responses

CONFIG = f"""# mine
model = "m"
model_provider = "own"

[model_providers.own]
name = "own"
base_url = "{HOST}"
wire_api = "responses"
experimental_bearer_token = "sk-mend-0123456789abcdef"
"""


@pytest.fixture
def codex(tmp_path: Path) -> Path:
    file = tmp_path / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(CONFIG)
    return file


def screen() -> Screen:
    return Screen(plain=True, out=io.StringIO(), err=io.StringIO(), env={})


def still_broken() -> Report:
    finding = found("base-url-missing-v1", "still")
    return Report(Diagnosis("error", (), (finding,)), (), Observations(Context("linux")))


def test_what_did_not_help_is_taken_back(tmp_path: Path, codex: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wizard.flows.doctor.Prober", _prober_without_sockets)
    world = fake_world(tmp_path, FakeHttp((models(), responses())), {})
    report = run_doctor(world, screen(), DoctorOptions(client="codex"))
    assert report.diagnosis.findings[0].code == "base-url-missing-v1"
    monkeypatch.setattr(mending, "run_doctor", lambda *_: still_broken())
    outcome = mend(world, screen(), report, DoctorOptions(client="codex"), yes=True)
    assert [one.outcome for one in outcome] == ["undone"]
    assert codex.read_text() == CONFIG


def test_what_helped_stays(tmp_path: Path, codex: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wizard.flows.doctor.Prober", _prober_without_sockets)
    world = fake_world(tmp_path, FakeHttp((models(), responses())), {})
    report = run_doctor(world, screen(), DoctorOptions(client="codex"))
    outcome = mend(world, screen(), report, DoctorOptions(client="codex"), yes=True)
    assert [one.outcome for one in outcome] == ["mended"]
    text = codex.read_text()
    assert f'base_url = "{HOST}/v1"' in text
    assert text.startswith("# mine")


def _prober_without_sockets(world: object, limits: object) -> object:
    from wizard.flows.probe import Prober

    from .conftest import FakeNetwork

    return Prober(world, limits, FakeNetwork())  # type: ignore[arg-type]
