"""The policy pack where gpupools is installed, and what the offline preview asks."""

from gpupools.policies.serve import serve

serve()
