"""Says what the real cloud-init takes of user data; run by a Python that imports `cloudinit`, and nothing of ours.

From standard input: a JSON list of user data in base64. To standard output: for each what runs and what is written.
Nothing of it runs or is fetched here, and the files go to a folder that is removed.
"""

import base64
import json
import logging
import sys
import tempfile
from pathlib import Path
from typing import Any

from cloudinit import handlers, helpers, subp, url_helper, user_data, util
from cloudinit.config import cc_write_files
from cloudinit.filters import launch_index
from cloudinit.handlers.boot_hook import BootHookPartHandler
from cloudinit.handlers.cloud_config import CloudConfigPartHandler
from cloudinit.handlers.jinja_template import JinjaTemplatePartHandler
from cloudinit.handlers.shell_script import ShellScriptPartHandler
from cloudinit.handlers.shell_script_by_frequency import ShellScriptByFreqPartHandler
from cloudinit.settings import PER_ALWAYS, PER_INSTANCE, PER_ONCE

INSTANCE = {"v1": {"region": "eu-central-1"}}


def taken(raw: bytes, folder: Path) -> dict[str, Any]:
    """Take user data apart as the first start of the first machine does."""
    said: dict[str, Any] = {"scripts": [], "commands": {}, "files": {}, "fetched": [], "handlers": 0, "failed": ""}

    def fetch(address: str, *_: Any, **__: Any) -> Any:
        said["fetched"].append(address)
        return Nothing()

    def add_handler(*_: Any) -> None:
        said["handlers"] += 1

    def run(command: list[str], *_: Any, **__: Any) -> tuple[str, str]:
        said["scripts"].append(Path(command[0]).read_bytes().decode(errors="surrogateescape"))
        return "", ""

    for module in (user_data, url_helper, cc_write_files, util):
        module.read_file_or_url = fetch
    handlers.walker_handle_handler = add_handler
    subp.subp = run
    paths = helpers.Paths({"cloud_dir": str(folder / "cloud"), "run_dir": str(folder / "run")}, FakeSource())
    for name in (paths.get_ipath(), paths.run_dir):
        Path(name).mkdir(parents=True, exist_ok=True)
    for name in ("instance_data", "instance_data_sensitive"):
        if name in paths.lookups:
            Path(paths.get_runpath(name)).write_text(json.dumps(INSTANCE))
    try:
        undone = getattr(util, "maybe_b64decode", bytes)  # newer ones have it
        message = user_data.UserDataProcessor(paths).process(undone(raw))
    except Exception as error:  # then the first stage fails, and nothing after it runs
        return {**said, "failed": type(error).__name__}
    message = launch_index.Filter(0).apply(message)
    walk(message, paths)
    config = Path(paths.get_ipath("cloud_config"))
    merged = util.load_yaml(config.read_text(), default={}) if config.is_file() else {}
    said["config"] = sorted(map(str, merged))
    for folder_ in (
        paths.get_ipath_cur("scripts"),
        *(f"{paths.get_cpath('scripts')}/per-{x}" for x in ("boot", "instance", "once")),
    ):
        for file in sorted(Path(folder_).iterdir()) if Path(folder_).is_dir() else []:
            said["scripts"].append(file.read_bytes().decode(errors="surrogateescape"))
    for key in ("bootcmd", "runcmd"):
        if key in merged:
            try:
                said["commands"][key] = util.shellify(merged[key])
            except TypeError:
                said["commands"][key] = "#!/bin/sh\n"
    written: dict[str, bytes] = said["files"]

    def write(path: str, content: Any, *_: Any, omode: str = "wb", **__: Any) -> None:
        content = util.encode_text(content)
        memoryview(content)  # fails as the real one does for what are no bytes
        written[path] = (written.get(path, b"") if "a" in omode else b"") + content

    util.write_file, util.chownbyname, util.get_permissions = write, lambda *_: None, lambda _: 0o644
    util.chmod = lambda *_: None
    try:
        given = merged.get("write_files", [])
        if hasattr(cc_write_files, "read_url_or_decode"):
            cc_write_files.write_files("write_files", given, "root:root", None)
        else:
            cc_write_files.write_files("write_files", given, "root:root")
    except Exception as error:  # what stood before it is written
        said["stopped"] = type(error).__name__
    said["files"] = {path: base64.b64encode(content).decode() for path, content in written.items()}
    return said


def walk(message: Any, paths: Any) -> None:
    known = helpers.ContentHandlers()
    config, script = (
        CloudConfigPartHandler(paths=paths, datasource=None),
        ShellScriptPartHandler(paths=paths, datasource=None),
    )
    hook = BootHookPartHandler(paths=paths, datasource=None)
    by_frequency = [ShellScriptByFreqPartHandler(each, paths) for each in (PER_ALWAYS, PER_INSTANCE, PER_ONCE)]
    jinja = JinjaTemplatePartHandler(paths=paths, datasource=None, sub_handlers=[config, script, hook])
    for each in (config, script, *by_frequency, hook, jinja):
        known.register(each, overwrite=False)
    for each in {id(one): one for _, one in known.items()}.values():
        handlers.call_begin(each, None, PER_INSTANCE)
    data = {
        "handlers": known,
        "handlerdir": "",
        "data": None,
        "frequency": PER_INSTANCE,
        "handlercount": 0,
        "excluded": [],
    }
    handlers.walk(message, handlers.walker_callback, data=data)
    for each in {id(one): one for _, one in known.items()}.values():
        handlers.call_end(each, None, PER_INSTANCE)


class Nothing:
    """What every address answers."""

    contents, code = b"", 200

    def ok(self) -> bool:
        return True


class FakeSource:
    def get_instance_id(self) -> str:
        return "i-0"


def main() -> None:
    logging.disable(logging.CRITICAL)
    real = util.write_file, util.chownbyname, util.get_permissions, util.chmod
    told = []
    for each in json.load(sys.stdin):
        with tempfile.TemporaryDirectory() as folder:
            told.append(taken(base64.b64decode(each), Path(folder)))
        util.write_file, util.chownbyname, util.get_permissions, util.chmod = real
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
