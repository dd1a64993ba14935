"""The GPU software of a cluster, decided once for all its pools: who owns each piece, and what must be installed.

Pure like the rest of the domain; `components/gpupools/components/gpu_runtime.py` declares what a `RuntimePlan` says.
"""
