"""Whether an installed client is one that its template was written for."""

from __future__ import annotations

import re

from wizard.clients.spec import ClientSpec
from wizard.i18n import t
from wizard.problems import Fix, Problem


def version_numbers(text: str) -> tuple[int, ...]:
    """`1.18.33-beta` -> (1, 18, 33); empty where there is no number."""
    match = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def in_range(version: str, versions: str) -> bool:
    """Whether a version satisfies all comma-separated conditions (`>=0.150,<2`)."""
    numbers = version_numbers(version)
    for condition in filter(None, (part.strip() for part in versions.split(","))):
        match = re.fullmatch(r"(>=|<=|>|<|==)\s*([\d.]+)", condition)
        if match is None:
            raise ValueError(f"no version condition: {condition}")
        bound = version_numbers(match[2])
        width = max(len(numbers), len(bound))
        have, want = (pad + (0,) * (width - len(pad)) for pad in (numbers, bound))
        if not {">=": have >= want, "<=": have <= want, ">": have > want, "<": have < want, "==": have == want}[
            match[1]
        ]:
            return False
    return True


def _is_older(version: str, versions: str) -> bool:
    """Whether a version is below a lower bound of the range."""
    lower = ",".join(part for part in versions.split(",") if part.strip().startswith(">"))
    return not in_range(version, lower)


def judge_version(spec: ClientSpec, version: str) -> tuple[Problem, ...]:
    """A warning where the installed version is outside the template's range, which says on which side."""
    if not version_numbers(version) or in_range(version, spec.versions):
        return ()
    if _is_older(version, spec.versions):
        what = t(
            "{title} {version} is too old for what is written here, which was made for {versions}.",
            title=spec.title,
            version=version,
            versions=spec.versions,
        )
        fix = Fix(t("Update it."), (spec.install,) if spec.install else ())
    else:
        what = t(
            "{title} {version} is newer than what is written here, which was made for {versions}.",
            title=spec.title,
            version=version,
            versions=spec.versions,
        )
        fix = Fix(
            t("See whether it works all the same, and whether there is a newer llm-setup."),
            (f"llm-setup clients verify {spec.name} --run", "llm-setup version --check"),
        )
    return (
        Problem(
            "client-version-unknown-to-template",
            what,
            t("The client's settings changed between these versions, so it may ignore or refuse some of them."),
            fix=fix,
            severity="warning",
        ),
    )
