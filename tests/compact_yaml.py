"""YAML for people to read differences in: what fits into a line stands in one."""

import json
from typing import Any

import yaml

LINE = 118


class _Compact(yaml.SafeDumper):
    def represent_data(self, data: Any) -> yaml.Node:
        node = super().represent_data(data)
        if isinstance(node, yaml.CollectionNode):
            node.flow_style = len(json.dumps(data)) <= LINE
        return node

    def ignore_aliases(self, data: Any) -> bool:
        return True


def compact_yaml(value: Any) -> str:
    """Write a value with its keys in their order; a text is never broken into lines."""
    return yaml.dump(value, Dumper=_Compact, sort_keys=False, width=10**6, allow_unicode=True)
