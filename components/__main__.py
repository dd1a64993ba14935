"""Serves the components to Pulumi programs in any language; the engine runs this folder by path."""

import sys
import tomllib
from pathlib import Path

# Run by path, only this folder is importable, and `pulumi install` installs the lock but not the project.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from pulumi.provider.experimental import component_provider_host, host

from components import declared
from components.gpu_node_pool import GpuNodePool
from components.gpu_runtime import GpuRuntime
from components.host import NothingDropped

declared.hosted = True
vars(host)["ComponentProvider"] = NothingDropped  # there is no other way to hand it in
project = tomllib.loads(Path(__file__).resolve().parent.with_name("pyproject.toml").read_text(encoding="utf-8"))
component_provider_host([GpuNodePool, GpuRuntime], name="gpupools", version=project["project"]["version"])
