"""Serves the policy pack; `pulumi preview --policy-pack policies` runs this folder by path."""

from gpupools.policies.serve import serve

serve()
