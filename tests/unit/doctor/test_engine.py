"""Running and ranking: crashes stay alone, root causes come first, consequences are folded under them."""

from __future__ import annotations

import pytest

from wizard.doctor.causes import all_causes, find_cause, found
from wizard.doctor.engine import Check, Unseen, all_checks, conclude, examine, rank, run_check
from wizard.doctor.observations import Context, Observations
from wizard.problems import Problem

NOTHING = Observations(Context("linux"))


def check(answer: object) -> Check:
    def judge(seen: Observations) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Check("one", "One", judge)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        pytest.param(None, "ok", id="none-is-fine"),
        pytest.param((), "ok", id="no-findings"),
        pytest.param(Unseen("not asked"), "skipped", id="skipped"),
        pytest.param(Unseen("no answer", unknown=True), "unknown", id="unknown"),
        pytest.param(Problem("key-invalid", "x"), "error", id="error"),
        pytest.param(Problem("key-invalid", "x", severity="warning"), "warning", id="warning"),
        pytest.param(Problem("key-invalid", "x", severity="info"), "ok", id="a-note"),
        pytest.param(KeyError("choices"), "crashed", id="crash"),
    ],
)
def test_a_check_s_answer_becomes_its_status(answer: object, status: str) -> None:
    assert run_check(check(answer), NOTHING).status == status


def test_a_crashed_check_leaves_the_others_and_makes_the_whole_unknown() -> None:
    diagnosis = examine(NOTHING, checks=[check(RuntimeError("boom")), check(None)])
    assert [result.status for result in diagnosis.results] == ["crashed", "ok"]
    assert diagnosis.status == "unknown"
    assert "boom" in diagnosis.results[0].detail


def test_what_could_not_be_seen_is_never_ok() -> None:
    assert conclude([run_check(check(Unseen("no answer", unknown=True)), NOTHING)]).status == "unknown"


def test_errors_come_before_warnings_and_roots_before_consequences() -> None:
    findings = [
        found("stream-mismatch", "a", severity="warning"),
        found("model-name-mismatch", "b"),
        found("key-whitespace", "c"),
    ]
    ranked, _ = rank(findings)
    assert [finding.code for finding in ranked] == ["key-whitespace", "model-name-mismatch", "stream-mismatch"]


def test_a_consequence_is_folded_under_its_cause() -> None:
    ranked, folded = rank([found("html-instead-of-json", "page"), found("base-url-missing-v1", "no v1")])
    assert [finding.code for finding in ranked] == ["base-url-missing-v1"]
    assert [(cause, finding.code) for cause, finding in folded] == [("base-url-missing-v1", "html-instead-of-json")]


def test_a_warning_explains_nothing_away() -> None:
    ranked, folded = rank(
        [found("html-instead-of-json", "page"), found("base-url-missing-v1", "no v1", severity="warning")]
    )
    assert [finding.code for finding in ranked] == ["html-instead-of-json", "base-url-missing-v1"]
    assert not folded


def test_the_same_code_twice_is_one_finding_with_both_evidences() -> None:
    ranked, _ = rank([found("key-invalid", "first", "a"), found("key-invalid", "second", "b")])
    assert len(ranked) == 1
    assert ranked[0].saw == ("a", "second", "b")


def test_a_dead_server_explains_that_nothing_listens() -> None:
    ranked, folded = rank([found("server-not-ready", "refused"), Problem("cuda-oom", "out of memory")])
    assert [finding.code for finding in ranked] == ["cuda-oom"]
    assert folded[0][1].code == "server-not-ready"


def test_every_cause_has_all_its_texts_and_explains_only_known_ones() -> None:
    known = {cause.code for cause in all_causes()}
    for cause in all_causes():
        assert cause.title and cause.why and cause.fix and cause.tells, cause.code
        assert cause.explains <= known, cause.code
        assert cause.code not in cause.explains


def test_no_two_causes_explain_each_other() -> None:
    for cause in all_causes():
        assert not any(cause.code in find_cause(code).explains for code in cause.explains), cause.code


def test_ids_of_checks_are_unique() -> None:
    ids = [one.id for one in all_checks()]
    assert len(ids) == len(set(ids))
