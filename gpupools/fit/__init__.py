"""Whether pods fit the pools of a stack: from manifests before anything is deployed, or live pods that wait."""
