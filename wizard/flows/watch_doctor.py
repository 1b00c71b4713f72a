"""`doctor --watch`: look again whenever something changed, and ring when all is well."""

from __future__ import annotations

from urllib.parse import urlsplit

from wizard.doctor.observations import Target
from wizard.effects.network import Network
from wizard.effects.world import World
from wizard.flows.doctor import DoctorOptions, Report, observe, run_doctor, show_report
from wizard.i18n import t
from wizard.ui.screen import Screen

_PAUSE_S = 2.0
# Faults that no file and no port shows (a key renewed at the gateway) are looked for this often.
_AT_LEAST_EVERY_S = 60.0


def watch(
    world: World, screen: Screen, options: DoctorOptions, *, rounds: int | None = None, network: Network | None = None
) -> Report:
    """Stay until interrupted, or until all is well; returns the last report. rounds: at most so many looks (tests)."""
    last: Report | None = None
    before: object = None
    looked_at = -_AT_LEAST_EVERY_S
    looks = 0
    while True:
        now = _fingerprint(world, options, network or Network())
        if now != before or world.clock.monotonic_s() - looked_at >= _AT_LEAST_EVERY_S:
            before, looked_at = now, world.clock.monotonic_s()
            last = run_doctor(world, screen, options)
            screen.title(world.clock.now().strftime("%H:%M:%S"))
            show_report(screen, last)
            if last.diagnosis.status in ("ok", "warning") and last.targets:
                # Past Screen.line, which shows control characters of others' texts and does not send them.
                screen.people.write("\a")
                screen.line(t("It works now."))
                return last
        looks += 1
        if rounds is not None and looks >= rounds and last is not None:
            return last
        world.clock.sleep(_PAUSE_S)


def _fingerprint(world: World, options: DoctorOptions, network: Network) -> object:
    """What cheaply shows a change: files, own servers, whether each endpoint's port is open."""
    seen = observe(world, options)
    return (
        tuple((file.path, file.text) for file in seen.files),
        tuple((server.name, server.alive, server.ready, server.port) for server in seen.servers),
        tuple((target.base_url, target.model) for target in seen.targets),
        tuple(_door(network, target) for target in seen.targets),
    )


def _door(network: Network, target: Target) -> str:
    try:
        parts = urlsplit(target.base_url.strip())
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "invalid"
    return network.knock(parts.hostname or "", port).outcome if parts.hostname else "invalid"
