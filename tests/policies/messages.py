"""What the rules on one resource say about inputs that a test writes."""

from gpupools.common.json_types import JsonObject
from gpupools.policies.components import judge_resource
from gpupools.policies.declared_software import read_software
from gpupools.policies.finding import Context, format_finding
from gpupools.policies.kinds import read_pools
from gpupools.policies.wire import plain


def finding_messages(resource_type: str, props: JsonObject) -> list[str]:
    """Return the messages of all findings, unverified findings and advice included; inputs may be in wire form."""
    inputs = plain(props)
    found = judge_resource(read_pools(resource_type, inputs), read_software(resource_type, inputs), Context())
    return [format_finding(finding, inputs, rule) for rule, finding in found]
