"""Keys in the environment and in shells' start-up files: their bytes, whose they are, and who gets to see them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wizard.doctor.causes import found
from wizard.doctor.checks.way import is_local
from wizard.doctor.client_files import find_files, host_of, is_for_one_command, shell_lines, shown
from wizard.doctor.engine import Check, Unseen, Verdict
from wizard.doctor.key_owners import is_a_provider, owner_of
from wizard.doctor.observations import Observations
from wizard.i18n import t
from wizard.problems import Problem, Severity
from wizard.secret import Secret

# Which variables a client takes its key from, and which its URL.
_OPENAI = (("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE"), "https://api.openai.com/v1")
_ANTHROPIC = (("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"), ("ANTHROPIC_BASE_URL",), "https://api.anthropic.com")
_BY_CLIENT = {
    "openai-sdk": _OPENAI,
    "aider": _OPENAI,
    "qwen": _OPENAI,
    "litellm": _OPENAI,
    "anthropic-sdk": _ANTHROPIC,
    "claude-code": _ANTHROPIC,
}
_KEY_NAME = re.compile(r"(?:API_KEY|AUTH_TOKEN|_API_TOKEN|ACCESS_KEY)$|^HF_TOKEN$")
_NOT_OURS = re.compile(r"^(?:AWS_|GITHUB_|GITLAB_|NPM_|CI_|SSH_|KUBE|GOOGLE_APPLICATION|PYPI_|DOCKER_)")

_EXAMPLE = re.compile(
    r"^(?:sk-)?(?:your|my|the|insert|enter|replace|change)[-_ ]?(?:own[-_ ])?[\w -]*"
    r"(?:key|token|secret|me|here)[\w -]*$"
    r"|^<.*>$|^\{\{?.*\}\}?$|^(?:sk-)?x{3,}[\w-]*$|^sk-\.{3,}$|^sk-…$|^(?:sk-)?\*{3,}$|^\.{3,}$|^api[-_ ]?key$"
    r"|^你的|密钥",
    re.IGNORECASE,
)


def key_variables(seen: Observations) -> Iterator[tuple[str, str]]:
    """Variables of the environment that hold keys for models."""
    for name, value in seen.environment:
        if _KEY_NAME.search(name) and not _NOT_OURS.match(name):
            yield name, value


def troubles_of(value: str) -> tuple[str, ...]:
    """What is wrong with a key's characters, in words; empty: nothing."""
    troubles = []
    if "\r" in value or "\n" in value:
        troubles.append(t("a line end"))
    if value != value.strip() and not troubles:
        troubles.append(t("blanks around it"))
    bare = value.strip()
    if re.search(r"[ \t]", bare) and not bare.lower().startswith("bearer "):
        troubles.append(t("a blank inside"))
    if len(bare) > 1 and bare[0] in "\"'`“”‘’" and bare[-1] in "\"'`“”‘’":
        troubles.append(t("quotes around it"))
    if bare.lower().startswith("bearer "):
        troubles.append(t("the word `Bearer` in front, which clients add themselves"))
    if re.search(r"[^\x00-\x7f]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", bare.strip("“”‘’")):
        troubles.append(t("characters that no header can hold"))
    return tuple(troubles)


def key_characters(seen: Observations) -> Verdict:
    """Whether the keys in the environment can be sent at all."""
    problems = []
    looked = False
    for name, value in key_variables(seen):
        looked = True
        troubles = troubles_of(value) if value.strip() else ()
        if troubles:
            problems.append(
                found(
                    "key-whitespace",
                    t("The key in `{name}` has {what}.", name=name, what=", ".join(troubles)),
                    f"${name} = {Secret(value).hint}",
                    severity=_severity(seen, name),
                    commands=(f"printenv {name} | od -c | tail -3",),
                )
            )
    return tuple(problems) if looked else Unseen(t("no key is in the environment"))


def _severity(seen: Observations, name: str) -> Severity:
    """An error where the key is the one in question, or nobody said which is; where others were asked, a warning."""
    names = _BY_CLIENT.get(seen.client_type, ((), (), ""))[0]
    if seen.probed and seen.explicit:
        return "warning"
    return "error" if not seen.client_type or not names or name in names else "warning"


def key_is_there(seen: Observations) -> Verdict:
    """Whether the client's own variable holds something, when it is the client's only source of a key."""
    known = _BY_CLIENT.get(seen.client_type)
    if known is None or seen.probed:
        return Unseen(t("no client was named that takes its key from the environment"))
    names, url_names, official = known
    if any((seen.variable(name) or "").strip() for name in names) or _in_files(seen):
        return None
    empty = [name for name in names if seen.variable(name) is not None]
    if empty:
        return found(
            "key-missing",
            t("`{name}` is set and empty.", name=empty[0]),
            f'${empty[0]} = ""',
            commands=(f"export {empty[0]}=...",),
        )
    hidden = [line for line in shell_lines(seen) if line.name in names and line.value.strip("\"' ")]
    if hidden:
        line = hidden[0]
        what = (
            t("`{name}` is set in {file} and not in this environment.", name=line.name, file=line.path)
            if line.exported
            else t(
                "`{name}` is set in {file} without `export`, so that programs do not get it.",
                name=line.name,
                file=line.path,
            )
        )
        return found(
            "key-env-not-visible",
            what,
            line.where,
            fix=t("Open a new terminal (or `source` the file) and start the client from it.")
            if line.exported
            else t("Write `export {name}=...`.", name=line.name),
        )
    base = next((url for url in (seen.variable(name) for name in url_names) if url), official)
    if seen.error_text is None and is_local(host_of(base)):
        return None  # A local server may well want no key.
    return None if seen.error_text is None else Unseen(t("no key is in the environment"))


def _in_files(seen: Observations) -> bool:
    return any(target.client == seen.client_type and target.key for target in seen.targets)


def key_owner(seen: Observations) -> Verdict:
    """Whether a key was issued by the host that it is sent to, as far as its first letters tell."""
    problems: list[Problem] = []
    pairs: list[tuple[str, str, str, str]] = []
    for names, url_names, official in (_OPENAI, _ANTHROPIC):
        url_name = next((name for name in url_names if seen.variable(name)), "")
        url = seen.variable(url_name) if url_name else official
        pairs += [
            (f"${name}", seen.variable(name) or "", url or official, f"${url_name}" if url_name else url or "")
            for name in names
        ]
    for target in seen.targets:
        if target.key:
            pairs.append((target.key_source or target.source, target.key.reveal(), target.base_url, target.source))
    told: set[str] = set()
    for where, key, url, url_where in pairs:
        foreign = foreign_provider(key, url)
        if not foreign or key in told or (seen.explicit and where.startswith("$") and seen.probed):
            continue
        told.add(key)
        owner, certain = foreign
        problems.append(
            found(
                "key-wrong-provider",
                t(
                    "The key in {where} is {owner}'s, and goes to {host}.",
                    where=where,
                    owner=owner,
                    host=host_of(url),
                ),
                f"{where} = {Secret(key).hint}",
                f"{url_where}: {shown(url)}" if url_where != url else shown(url),
                severity="error" if certain and not seen.probed else "warning",
            )
        )
    return tuple(problems)


def foreign_provider(key: str, url: str) -> tuple[str, bool] | None:
    """Whose key it is, when it is not the host's; and whether the host is sure to refuse it, being another provider."""
    host = host_of(url)
    owner = owner_of(key)
    if not host or is_local(host):
        return None
    if owner is not None:
        return None if owner.hosts.search(host) else (owner.provider, is_a_provider(host))
    if re.search(r"(?:^|\.)anthropic\.com$", host) and re.match(r"sk-(?!ant-)", key.strip()):
        return t("another provider"), True
    return None


def key_example(seen: Observations) -> Verdict:
    """Whether a key is a guide's example that nobody replaced. Words for servers without keys (`EMPTY`) are fine."""
    problems = []
    rows = [(f"${name}", value) for name, value in key_variables(seen)]
    rows += [(target.key_source or target.source, target.key.reveal()) for target in seen.targets if target.key]
    for where, value in dict(rows).items():
        if value.strip() and _EXAMPLE.search(value.strip()):
            what = t("The key in {where} is an example: `{value}`.", where=where, value=value.strip()[:40])
            problems.append(found("key-placeholder", what, where, severity="warning" if seen.probed else "error"))
    return tuple(problems)


def shell_files(seen: Observations) -> Verdict:
    """Whether shells' start-up files set keys in a way that works."""
    if not any(find_files(seen, "shell")):
        return Unseen(t("there are no start-up files of a shell"))
    problems: list[Problem] = []
    for file in find_files(seen, "shell"):
        text = file.text or ""
        for number, line in enumerate(text.splitlines(), 1):
            spaced = re.match(r"\s*(?:export\s+)?(\w*(?:API_KEY|AUTH_TOKEN|BASE_URL))(?:\s+=\s*|=\s+)\S", line)
            if spaced and not is_for_one_command(line) and "fish" not in file.path and not file.path.endswith(".ps1"):
                what = t(
                    "{path} sets `{name}` with spaces around `=`, so that it stays unset.",
                    path=file.path,
                    name=spaced[1],
                )
                where = t("line {line}", line=number)
                problems.append(found("key-whitespace", what, where, severity="warning" if seen.probed else "error"))
        if re.search(r"(?m)^\s*export\s+\w*(?:API_KEY|AUTH_TOKEN)=[^\n]*\r$", text):
            what = t("{path} has Windows line ends: each value gets one at its end.", path=file.path)
            problems.append(
                found(
                    "key-whitespace", what, file.path, severity="warning", commands=(f"sed -i 's/\\r$//' {file.path}",)
                )
            )
    for shell in shell_lines(seen):
        if not _KEY_NAME.search(shell.name) or not shell.value.strip("\"' ") or seen.variable(shell.name) is not None:
            continue
        if seen.client_type in _BY_CLIENT and shell.name in _BY_CLIENT[seen.client_type][0]:
            continue  # Told by `key_is_there`.
        what = (
            t("`{name}` is set in {file} and not in this environment.", name=shell.name, file=shell.path)
            if shell.exported
            else t("`{name}` is set in {file} without `export`.", name=shell.name, file=shell.path)
        )
        problems.append(
            found("key-env-not-visible", what, shell.where, severity="warning" if not shell.exported else "info")
        )
    return tuple(problems)


CHECKS = (
    Check("key-characters", "Keys in the environment can be sent", key_characters),
    Check("key-there", "The client's variable holds a key", key_is_there),
    Check("key-owner", "Keys belong to the hosts they go to", key_owner),
    Check("key-example", "Keys are no examples", key_example),
    Check("shell-files", "Start-up files set keys rightly", shell_files),
)
