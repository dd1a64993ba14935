"""What people read of each rule: its row in `rules.csv`, and the public guidance behind it in `frameworks.csv`."""

from pathlib import Path

from gpupools.catalog.minimum_versions import NEWEST_BULLETIN
from gpupools.common.csv_rows import csv_rows
from gpupools.common.json_types import JsonDict
from gpupools.common.taints import GPU_TAINT
from gpupools.plan.node_labels import TRUST_LABEL
from gpupools.policies.finding import Framework, Level

_HERE = Path(__file__).parent
_FACTS = {"gpu_taint": GPU_TAINT, "newest_bulletin": NEWEST_BULLETIN, "trust_label": TRUST_LABEL}
"""What texts of the tables name in braces."""


def described(module: str) -> JsonDict:
    """Return the fields of `Rule` that the tables have for the rule of a module, which is named after it."""
    name = module.rpartition(".")[2].replace("_", "-")
    row = next(row for row in csv_rows(_HERE / "rules.csv") if row["rule"] == name)
    guide = next(csv_row for csv_row in csv_rows(_HERE / "frameworks.csv") if csv_row["framework"] == row["framework"])
    return {
        "name": name,
        "order": int(row["order"]),
        "level": Level(row["level"]),
        "severity": row["severity"],
        "why": row["why"],
        "fix": row["fix"].format_map(_FACTS),
        "url": row["url"],
        "framework": Framework(
            guide["name"], guide["version"].format_map(_FACTS), guide["reference"], guide["specification"]
        ),
    }
