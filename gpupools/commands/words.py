"""What `catalog` and `matrix` are asked for."""

from gpupools.base.errors import Problem, nearest
from gpupools.known.gpus import gpu_models, match_gpu_model
from gpupools.providers import clouds


def wrong_words(cloud: str | None, gpu: str | None) -> Problem | None:
    """Say what is wrong with `--cloud` or `--gpu`; None when nothing is."""
    if cloud is not None and cloud not in clouds():
        return Problem(("--cloud",), f"no cloud is called {cloud!r}", nearest(cloud, clouds()))
    if gpu is not None and not match_gpu_model(gpu):
        return Problem(("--gpu",), f"{gpu!r} is no NVIDIA GPU model", nearest(gpu, gpu_models()))
    return None
