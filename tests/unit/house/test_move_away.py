"""The command that moves a broken file away can be pasted whatever the file's path is."""

import shlex

import pytest

from wizard.problems import move_away


@pytest.mark.parametrize("path", ["/home/me/keys.json", "/home/it's me/keys.json", '/a "b"/$HOME/`c`'])
def test_a_shell_reads_both_paths_as_they_are(path: str) -> None:
    assert shlex.split(move_away(path)) == ["mv", path, f"{path}.broken"]
