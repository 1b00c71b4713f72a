"""The messages: every one is extracted, translated, and found again."""

from __future__ import annotations

import gettext
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from babel.messages.mofile import read_mo

from wizard.cli.main import COMMANDS
from wizard.i18n import t, translated, use_translation
from wizard.ui.language import Catalogue, find_language, languages, use_language

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script(load_script: Callable[[str], ModuleType]) -> ModuleType:
    """scripts/messages.py."""
    return load_script("messages")


@pytest.fixture(scope="module")
def messages(script: ModuleType) -> dict[str, list[str]]:
    """Every message in the sources, with the files that show it."""
    found: dict[str, list[str]] = script.extract_messages()
    return found


@pytest.fixture(autouse=True)
def in_english() -> Iterator[None]:
    yield
    use_translation(None)


# ---------------------------------------------------------------- extraction


def test_every_text_that_people_read_goes_through_t(script: ModuleType) -> None:
    assert script.unmarked_texts() == []


def test_it_is_known_where_the_texts_of_every_t_come_from(script: ModuleType) -> None:
    """If this fails: add the table to TOML_TEXTS, PYTHON_TABLES or CALLS of scripts/messages.py, then to INDIRECT."""
    places = script.indirect_places()
    unknown = {file: sorted(texts - script.INDIRECT.get(file, frozenset())) for file, texts in places.items()}
    assert {file: texts for file, texts in unknown.items() if texts} == {}


def test_the_files_of_the_tables_are_there(script: ModuleType) -> None:
    assert [pattern for pattern in script.TOML_TEXTS if not list(ROOT.glob(pattern))] == []
    assert [path for path, _ in script.PYTHON_TABLES if not (ROOT / path).exists()] == []


def test_messages_of_every_kind_are_extracted(messages: dict[str, list[str]]) -> None:
    assert messages["There is no terminal to ask on."] == ["wizard/ui/questions.py"]
    assert messages["The GPU ran out of memory"] == ["wizard/serving/deaths.toml"]
    assert messages["PCIe, one NUMA node"] == ["wizard/hardware/render.py"]
    assert messages["Client files parse"] == ["wizard/doctor/checks/config_others.py"]
    assert messages["Start a vLLM server, attached or detached."] == ["wizard/cli/main.py"]


def test_every_text_of_help_is_a_message(messages: dict[str, list[str]]) -> None:
    commands: list[click.Command] = [
        importlib.import_module(f"wizard.cli.{name}").command for name, _ in COMMANDS.values()
    ]
    missing = []
    while commands:
        command = commands.pop()
        if isinstance(command, click.Group):
            commands.extend(command.commands.values())
        options = [option.help for option in command.params if isinstance(option, click.Option)]
        texts = [inspect.cleandoc(text) for text in (command.help, command.epilog, *options) if text]
        missing += [text for text in texts if text not in messages]
    assert missing == []


# ---------------------------------------------------------------- translations


@pytest.mark.parametrize("language", languages())
def test_every_message_is_translated(script: ModuleType, messages: dict[str, list[str]], language: str) -> None:
    """If this fails: scripts/messages.py missing > FILE; translate in it; scripts/messages.py fill FILE."""
    known = script.translations_of(script.read_catalog(language))
    assert [text for text in messages if text not in known] == []


@pytest.mark.parametrize("language", languages())
def test_the_catalogue_has_no_message_that_is_gone(
    script: ModuleType, messages: dict[str, list[str]], language: str
) -> None:
    """If this fails: run scripts/messages.py."""
    catalogue = script.read_catalog(language)
    assert sorted(str(message.id) for message in catalogue if message.id and message.id not in messages) == []
    assert list(catalogue.obsolete) == []
    assert [message.id for message in catalogue if message.id and message.fuzzy] == []


@pytest.mark.parametrize("language", languages())
def test_a_translation_has_the_placeholders_and_literals_of_its_message(script: ModuleType, language: str) -> None:
    wrong = []
    for text, translation in script.translations_of(script.read_catalog(language)).items():
        for part in (r"\{[^{}\s]*\}", r"`[^`]*`", r"%\(\w+\)s"):
            if sorted(re.findall(part, text)) != sorted(re.findall(part, translation)):
                wrong.append((text, translation))
    assert wrong == []


@pytest.mark.parametrize("language", languages())
def test_the_compiled_catalogue_is_that_of_the_text(script: ModuleType, language: str) -> None:
    """If this fails: run scripts/messages.py."""
    with script.po_path(language).with_suffix(".mo").open("rb") as file:
        compiled = read_mo(file)
    assert script.translations_of(compiled) == script.translations_of(script.read_catalog(language))


@pytest.mark.parametrize("language", languages())
def test_texts_are_found_as_gettext_finds_them(
    script: ModuleType, messages: dict[str, list[str]], language: str
) -> None:
    path = script.po_path(language).with_suffix(".mo")
    with path.open("rb") as file:
        standard = gettext.GNUTranslations(file)
    ours = Catalogue(str(path))
    assert [text for text in messages if ours.lookup(text) != standard.gettext(text)] == []
    assert ours.lookup("no message of ours") == "no message of ours"
    assert ours.lookup("") == ""


def test_a_file_that_is_no_catalogue_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.mo").write_bytes(b"x" * 64)
    with pytest.raises(ValueError, match=r"broken\.mo is no catalogue"):
        Catalogue(str(tmp_path / "broken.mo"))


# ---------------------------------------------------------------- choosing


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("zh_CN", "zh_CN"),
        ("zh_CN.UTF-8", "zh_CN"),
        ("zh-CN", "zh_CN"),
        ("zh_cn.gb18030", "zh_CN"),
        ("zh", "zh_CN"),
        ("zh-Hans", "zh_CN"),
        ("zh_SG@pinyin", "zh_CN"),
        ("en", "en"),
        ("en_GB.UTF-8", "en"),
        ("C", "en"),
        ("C.UTF-8", "en"),
        ("POSIX", "en"),
        ("de_DE.UTF-8", None),
        ("", None),
        ("zhx", None),
        ("cs_CZ", None),
    ],
)
def test_a_name_finds_its_language(name: str, language: str | None) -> None:
    assert find_language(name) == language


@pytest.mark.parametrize(
    ("lang", "env", "chinese"),
    [
        pytest.param("zh_CN", {}, True, id="the option"),
        pytest.param("en", {"LLM_SETUP_LANG": "zh_CN", "LANG": "zh_CN.UTF-8"}, False, id="the option before all"),
        pytest.param(None, {"LLM_SETUP_LANG": "zh_CN", "LC_ALL": "C"}, True, id="our variable"),
        pytest.param(None, {"LLM_SETUP_LANG": "en", "LANG": "zh_CN.UTF-8"}, False, id="our variable before the locale"),
        pytest.param(None, {"LANG": "zh_CN.UTF-8"}, True, id="the locale"),
        pytest.param(None, {"LC_ALL": "en_US.UTF-8", "LANG": "zh_CN.UTF-8"}, False, id="LC_ALL before LANG"),
        pytest.param(None, {"LC_ALL": "", "LC_MESSAGES": "zh_CN.UTF-8", "LANG": "C"}, True, id="an empty one is none"),
        pytest.param(None, {"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, True, id="LANGUAGE is a list"),
        pytest.param(None, {"LANG": "de_DE.UTF-8", "LANGUAGE": "de:zh_CN"}, True, id="the next of the list"),
        pytest.param(None, {"LANG": "C", "LANGUAGE": "zh_CN"}, False, id="LANGUAGE means nothing in C"),
        pytest.param(None, {"LANG": "de_DE.UTF-8"}, False, id="a locale without messages is silent"),
        pytest.param(None, {}, False, id="nothing set"),
    ],
)
def test_the_language_is_chosen(lang: str | None, env: dict[str, str], chinese: bool) -> None:
    assert use_language(lang, env) == ""
    assert translated() == chinese
    assert t("Port {port} is taken.", port=8000) == ("端口 8000 已被占用。" if chinese else "Port 8000 is taken.")


@pytest.mark.parametrize(("lang", "env"), [("tlh", {}), (None, {"LLM_SETUP_LANG": "tlh", "LANG": "zh_CN.UTF-8"})])
def test_a_language_that_was_asked_for_and_is_not_there_is_named(lang: str | None, env: dict[str, str]) -> None:
    assert use_language(lang, env) == "tlh"
    assert not translated()
