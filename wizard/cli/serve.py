"""`llm-setup serve`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from wizard.cli.app import App, command_options
from wizard.i18n import t
from wizard.problems import usage_error
from wizard.secret import Secret
from wizard.serving.record import DEFAULT_NAME, ServerRecord


@click.command(
    epilog="Example: llm-setup serve Qwen/Qwen3-8B --detach --set max-model-len=32768",
)
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[MODEL] [-- VLLM-FLAGS]")
@click.option("--model", metavar="MODEL", help="The same as MODEL.")
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="The server's name, for stop, status and logs.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port.  [default: 8000, or the next free one]")
@click.option("--detach", "-d", is_flag=True, help="Return when it is ready, and leave it running.")
@click.option("--context", "context_tokens", type=click.IntRange(min=1), metavar="N", help="Tokens of context.")
@click.option("--set", "pins", multiple=True, metavar="FLAG=VALUE", help="Fix one of vLLM's flags; repeatable.")
@click.option("--for", "clients", multiple=True, metavar="CLIENT", help="Plan for this client; repeatable.")
@click.option("--from", "hub", type=click.Choice(["huggingface", "modelscope"]), help="Hub that MODEL is fetched from.")
@click.option("--api-key-file", type=click.Path(path_type=Path), help="File with the key.  [default: made and kept]")
@click.option("--vllm", metavar="PATH", help="An installed vLLM: its venv, `bin/vllm` or Python.")
@click.option("--vllm-version", metavar="V", help="Install and use this version of vLLM.")
@click.option("--container", is_flag=True, help="Run vLLM's container image by Docker or Podman; installs nothing.")
@click.option("--image", metavar="IMAGE", default="", help="Another image, with `--container`.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=1), metavar="S", help="Seconds until it must be ready."
)
@click.option("--replace", "replace_running", is_flag=True, help="Stop another server of that name first.")
@click.option("--restart", is_flag=True, help="While attached: start again after a crash, with growing pauses.")
@command_options(yes=True, dry_run=True)
def command(
    app: App,
    extra: tuple[str, ...],
    model: str | None,
    name: str,
    host: str,
    port: int | None,
    detach: bool,
    context_tokens: int | None,
    pins: tuple[str, ...],
    clients: tuple[str, ...],
    hub: str | None,
    api_key_file: Path | None,
    vllm: str | None,
    vllm_version: str | None,
    container: bool,
    image: str,
    timeout_s: float | None,
    replace_running: bool,
    restart: bool,
) -> None:
    """Start a vLLM server; attached (Ctrl-C stops it) or detached.

    MODEL is a hub id or a folder; without one, and without a GPU, a small test model. Flags after `--` go to vLLM as
    they are.
    """
    from wizard.flows.hardware import observe_machine
    from wizard.flows.serve_model import ServeAnswers, prepare, read_pin, serve_attached, serve_model
    from wizard.serving.record import check_name
    from wizard.ui.questions import Questions

    if restart and detach:
        raise usage_error(
            "wrong-usage",
            t("`--restart` needs someone who stays: it does not go with `--detach`."),
            t("A user unit restarts a server without a terminal."),
        )
    if vllm and (container or image):
        raise usage_error("wrong-usage", t("`--vllm` and `--container` exclude each other."), t("Give one of them."))
    if extra and not extra[0].startswith("-") and model is None:
        model, *others = extra
        extra = tuple(others)
    answers = ServeAnswers(
        model=model,
        name=check_name(name),
        host=host,
        port=port,
        vllm=vllm,
        vllm_version=vllm_version,
        context_tokens=context_tokens,
        clients=clients,
        pins=tuple(read_pin(pin) for pin in pins),
        extra=check_extra(extra),
        key=read_key(api_key_file) if api_key_file else None,
        timeout_s=timeout_s,
        replace_running=replace_running,
        container=container or bool(image),
        image=image,
    )
    if hub:
        # As vLLM and the hubs' own clients are told.
        switch = "True" if hub == "modelscope" else ""
        app = replace(app, world=replace(app.world, env={**app.world.env, "VLLM_USE_MODELSCOPE": switch}))
    machine = observe_machine(app.world)
    if app.dry_run:
        from wizard.flows.serve_dry import plan_dry_run, show_dry_run

        would = plan_dry_run(app.world, app.screen, machine, answers)
        if app.screen.as_json:
            app.screen.document({"status": "ok", **would.as_json()})
        else:
            show_dry_run(app.screen, would)
        return
    questions = Questions(app.screen, yes=app.yes, may_ask=app.may_ask)
    ask_token = (lambda text: questions.secret("HF_TOKEN", text)) if app.may_ask else None
    prepared = prepare(app.world, app.screen, machine, answers, ask_token=ask_token)

    def agree(question: str) -> bool:
        return questions.confirm("--yes", question, recommended=True)

    def start() -> ServerRecord:
        return serve_model(app.world, app.screen, prepared, answers, yes=app.yes, agree=agree if app.may_ask else None)

    def ready(record: ServerRecord) -> None:
        if app.screen.as_json:
            from wizard.flows.status import observe_server

            app.screen.document({"status": "ok", "server": observe_server(app.world, record).as_json()})

    if detach:
        ready(start())
    else:
        serve_attached(app.world, app.screen, name, start, restart=restart, on_ready=ready)


def check_extra(extra: tuple[str, ...]) -> tuple[str, ...]:
    """The words for vLLM; a key among them would be seen by everyone on this machine."""
    if any(word.partition("=")[0].replace("_", "-") == "--api-key" for word in extra):
        raise usage_error(
            "key-in-arguments",
            t("A key in a command line is seen by everyone on this machine."),
            t("Write it into a file and give `--api-key-file FILE`, or let llm-setup make one."),
        )
    return extra


def read_key(path: Path) -> Secret:
    """The key in a file: its first line, without blanks at its ends."""
    try:
        text = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise usage_error(
            "key-file-unreadable", t("The key file `{path}` cannot be read.", path=path), str(error)
        ) from error
    if not text or "\n" in text or not text.isprintable():
        raise usage_error(
            "key-file-unreadable",
            t("The key file `{path}` does not hold one key.", path=path),
            t("One line, nothing else."),
        )
    return Secret(text)
