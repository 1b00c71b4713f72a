"""What is written for a client that cannot be started here passes the client's own schema, from its own package."""

from __future__ import annotations

from pathlib import Path

from .homes import make_home
from .installing import cache_folder, node, npm_install
from .processes import run

ROO_TYPES = "1.115.0"
# As Roo Code's import does it (src/core/config/importExport.ts): each profile for itself, unknown keys fall away.
CHECK = """\
import { globalSettingsSchema, providerSettingsWithIdSchema } from "@roo-code/types";
import fs from "fs";
const { providerProfiles, globalSettings } = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
globalSettingsSchema.parse(globalSettings);
const profile = providerProfiles.apiConfigs[providerProfiles.currentApiConfigName];
const taken = providerSettingsWithIdSchema.parse(profile);
console.log(Object.keys(profile).filter(key => !(key in taken)).join() || "all", taken.openAiBaseUrl);
"""


def test_roo_code_takes_every_setting(tmp_path: Path) -> None:
    types = npm_install(cache_folder() / f"roo-types-{ROO_TYPES}", f"@roo-code/types@{ROO_TYPES}")
    check = types / "check.mjs"
    check.write_text(CHECK)
    home = make_home(tmp_path / "home")
    url = "http://127.0.0.1:9/v1"
    arguments = ["clients", "apply", "roo", "--base-url", url, "--model", "m", "--context", "65536", "--yes"]
    assert home.wizard(*arguments, LLM_SETUP_API_KEY="sk-roo-0123456789abcdef").code == 0
    (settings,) = home.folder.rglob("roo-code-settings.json")
    ended = run([node() / "node", check, settings], env=home.env(), cwd=home.work, within_s=60)
    assert ended.stdout.split() == ["all", url], ended.text
