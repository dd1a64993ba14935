"""The capability matrix of Nimbus: its own plugin shares whole GPUs in time, and nothing else shares any."""

from collections.abc import Mapping

from gpupools.plan.capability import Capability, Owners, SoftwareOption, Verdict
from gpupools.plan.dra import DRA_DRIVER, dra_capabilities
from gpupools.plan.hami import HAMI, hami_capabilities
from gpupools.spec.models import SHARING_KINDS

_PAGE = "https://example.com/gpus"

SOFTWARE: Mapping[str, SoftwareOption] = {
    "cloud-managed": SoftwareOption(Owners("Nimbus", "Nimbus", "Nimbus"), "the cloud brings all of it", _PAGE),
    "device-plugin": SoftwareOption(
        Owners("Nimbus", "Nimbus", "NVIDIA device plugin"), "the image has a driver", _PAGE
    ),
    "gpu-operator": SoftwareOption(Owners("Nimbus", "Nimbus", "GPU Operator"), "the image has a driver", _PAGE),
    DRA_DRIVER: SoftwareOption(Owners("Nimbus", "Nimbus", "none (NVIDIA DRA driver)"), "the image has a driver", _PAGE),
    HAMI: SoftwareOption(Owners("Nimbus", "Nimbus", "HAMi"), "the image has a driver and a toolkit", _PAGE),
}

DEFAULT_SOFTWARE: Mapping[str, str] = dict.fromkeys(SHARING_KINDS, "cloud-managed")


def _cell(software: str, kind: str) -> Capability:
    if kind == "none" or (software, kind) == ("cloud-managed", "time-slicing"):
        verdict = Verdict.NATIVE if kind != "none" else Verdict.IN_CLUSTER
        verdict = Verdict.NATIVE if software == "cloud-managed" else verdict
        return Capability(verdict, "the pool or its plugin does it", _PAGE)
    return Capability(Verdict.REFUSED, "nobody has tried it there", _PAGE, "use software: cloud-managed on whole GPUs")


_ROWS = {(software, kind): _cell(software, kind) for software in list(SOFTWARE)[:-2] for kind in SHARING_KINDS}

CAPABILITIES: Mapping[tuple[str, str], Capability] = {
    **_ROWS,
    **dra_capabilities(Capability(Verdict.IN_CLUSTER, "NVIDIA's DRA driver serves claims", _PAGE), _ROWS),
    **hami_capabilities(Capability(Verdict.IN_CLUSTER, "HAMi's device plugin divides GPUs", _PAGE), _ROWS),
}
