"""What is said when a server ended or stalls."""

from __future__ import annotations

from wizard.problems import Problem
from wizard.serving.endings import last_error, plan_end_problem, plan_stall_problem

LINES = [
    "(EngineCore pid=1) ERROR 11-30 13:34:03 [core.py:866] ValueError: the real one",
    "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    "(APIServer pid=2) WARNING 11-30 [x.py:1] This can cause fd limit errors like `OSError: [Errno 24]`.",
    "",
]


def _end(judged: tuple[Problem, ...] = (), code: int | None = 1, lines: list[str] = LINES) -> Problem:
    return plan_end_problem("default", code, judged, lines, log="/l.log", phase="load")


def test_the_last_error_is_neither_a_wrapper_nor_a_warning() -> None:
    assert last_error(LINES).endswith("ValueError: the real one")
    assert last_error(["INFO all is well"]) == ""


def test_a_known_death_comes_first_with_its_log() -> None:
    problem = _end((Problem("cuda-oom", "memory"), Problem("other", "x")))
    assert (problem.code, problem.saw) == ("cuda-oom", ("log: /l.log",))


def test_an_unknown_death_shows_its_last_error_and_exit_status() -> None:
    problem = _end(code=3)
    assert problem.code == "server-died"
    assert "ValueError: the real one" in problem.saw[0]
    assert "exit status 3" in problem.saw


def test_a_death_without_any_error_shows_its_last_line() -> None:
    assert _end(lines=["INFO loading", ""]).saw[0] == "INFO loading"


def test_a_kill_from_outside_is_told_apart() -> None:
    assert _end(code=-9).code == "server-killed"


def test_a_stall_names_the_phase_and_the_last_line() -> None:
    problem = plan_stall_problem("d", waited_s=600, limit="stall", last_line="x y", log="/l", phase="compile")
    assert problem.code == "server-start-stalled"
    assert "10 min" in problem.what
    assert "x y" in problem.saw
