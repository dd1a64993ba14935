"""Runs the smoke test of pools in a live cluster, and deletes it afterwards: the only part of `ready` that writes."""

import time
from collections.abc import Iterable, Mapping
from copy import deepcopy

from gpupools.common.json_types import JsonDict
from gpupools.console.output import tell
from gpupools.plan.pool_plan import PoolPlan
from gpupools.readback.inputs import at
from gpupools.ready.live_cluster import ClusterApi, Unreachable
from gpupools.software.objects import SMOKE_NAMESPACE, smoke_claims, smoke_namespace, smoke_test

_JOBS = f"/apis/batch/v1/namespaces/{SMOKE_NAMESPACE}/jobs"
_PODS = f"/api/v1/namespaces/{SMOKE_NAMESPACE}/pods"
_CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{SMOKE_NAMESPACE}/resourceclaimtemplates"
_LIST_DEVICES = ["sh", "-c", "nvidia-smi -L && exec /cuda-samples/sample"]
"""The image's own program after the list of devices (NVIDIA/k8s-samples, deployments/container/Dockerfile.ubuntu)."""


def run_smoke_tests(pools: Iterable[PoolPlan], apis: Mapping[str, ClusterApi], timeout_s: int) -> int:
    """Run the smoke test of each pool; return 1 if one fails."""
    code = 0
    for pool in pools:
        why = _failure(pool, apis[pool.cluster], timeout_s)
        tell(f"{pool.cluster}/{pool.name}: smoke test {f'failed: {why}' if why else 'passed'}", error=bool(why))
        code = 1 if why else code
    return code


def job_of(pool: PoolPlan) -> JsonDict:
    """Return the Job of a pool under a name of its own, so that a declared one stays; Kubernetes deletes leftovers."""
    job: JsonDict = deepcopy(dict(smoke_test(pool).manifest))
    job["metadata"] = {"labels": job["metadata"]["labels"], "generateName": f"ready-{pool.name}-"}
    job["spec"]["ttlSecondsAfterFinished"] = 600
    if pool.sharing.mig is not None:
        job["spec"]["template"]["spec"]["containers"][0]["command"] = _LIST_DEVICES
    return job


def _failure(pool: PoolPlan, api: ClusterApi, timeout_s: int) -> str:
    """Return why the test failed, or what of it is left; empty if it passed. Deletes what it created."""
    created, why = list[str](), list[str]()
    objects = [(_CLAIMS, dict(claim.manifest)) for claim in smoke_claims(pool)]
    objects = [("/api/v1/namespaces", dict(smoke_namespace([pool]).manifest)), *objects, (_JOBS, job_of(pool))]
    try:
        for path, manifest in objects:
            name = manifest["metadata"].get("name")
            if name is None or api.request(f"{path}/{name}") is None:
                name = api.request(path, method="POST", body=manifest)["metadata"]["name"]
                created.append(f"{path}/{name}")
        why.append(_outcome(pool, api, str(name), timeout_s))
    except (Unreachable, PermissionError) as error:
        why.append(str(error))
    finally:
        for path in reversed(created):
            try:
                api.request(path, method="DELETE", body={"propagationPolicy": "Background"})
            except (Unreachable, PermissionError) as error:
                why.append(f"{path} is left: {error}")
    return "; ".join(filter(None, why))


def _outcome(pool: PoolPlan, api: ClusterApi, job: str, timeout_s: int) -> str:
    end, ended = time.monotonic() + timeout_s, dict[str, str]()
    while not {"Complete", "Failed"} & ended.keys():
        if time.monotonic() > end:
            return f"the Job did not finish in {timeout_s} s"
        time.sleep(2)
        conditions = at(api.request(f"{_JOBS}/{job}"), "status.conditions") or ()
        ended = {entry["type"]: entry.get("message", "") for entry in conditions if entry.get("status") == "True"}
    pods = api.items(_PODS, "pods", labelSelector=f"job-name={job}")
    log = "\n".join(str(api.request(f"{_PODS}/{pod['metadata']['name']}/log") or "") for pod in pods).strip()
    if "Failed" in ended:
        return f"{ended['Failed']} {log.rpartition(chr(10))[2]}".strip()
    whole = pool.sharing.mig is not None and "MIG-" not in log
    return f"the pod got a whole GPU instead of a MIG slice: {log.partition(chr(10))[0]}" if whole else ""
