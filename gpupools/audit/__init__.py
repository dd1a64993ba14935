"""Readers of other tools' documents and objects; to add a reader, write its module and add it to one table below.

A file form turns a file into `document.Resource`s in Pulumi's wire form (type token, camelCase inputs, `UNKNOWN`).
`forms` recognizes the form by a file's content, `judging` applies the rules, `sarif` and `junit` write the results.
A reader of resources or Kubernetes objects is also used by the policy pack. Imports no Pulumi.
"""

from gpupools.readback.registry import register

FORMS: tuple[str, ...] = (
    *("terraform_plan", "terraform_state", "pulumi_preview", "pulumi_state", "gpupools_preview"),
    *("cloudformation_template", "cloudformation_change_set", "arm_template", "arm_what_if", "stack_file"),
)
"""Modules of file forms, each a `forms.Form`; `kubernetes` reads what has `apiVersion` and `kind`, and
`terraform_configuration` a folder of `.tf` files."""

TYPE_READERS: tuple[str, ...] = ("cloudformation_template", "arm_template", "bridged_packages")
"""Modules that read pools inside resources of Pulumi types, each with a `TypeReader`."""

KUBERNETES_READERS: tuple[str, ...] = ("cluster_api", "node_groups")
"""Modules that read Kubernetes objects, each with a `KubernetesReader`."""

register(
    types=[f"{__name__}.{module}" for module in TYPE_READERS],
    kubernetes=[f"{__name__}.{module}" for module in KUBERNETES_READERS],
)
