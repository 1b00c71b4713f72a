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


def judge_version(spec: ClientSpec, version: str) -> tuple[Problem, ...]:
    """A warning where the installed version is outside the template's range."""
    if not version_numbers(version) or in_range(version, spec.versions):
        return ()
    return (
        Problem(
            "client-version-unknown-to-template",
            t(
                "{title} {version} is installed; what is written here was made for {versions}.",
                title=spec.title,
                version=version,
                versions=spec.versions,
            ),
            t("The client's settings changed between these versions, so it may ignore or refuse some of them."),
            fix=Fix(t("Update it."), (spec.install,) if spec.install else ()),
            severity="warning",
        ),
    )
