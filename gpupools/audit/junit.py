"""Findings as JUnit XML, in the elements that Jenkins, GitLab and GitHub's test reporters have in common.

https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as Xml

from gpupools.audit.judging import FileReport, ReportedFinding
from gpupools.console.output import printable
from gpupools.policies.finding import FindingLevel

_COUNTED = (("tests", "testcase"), ("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
"""Attributes of a suite, with the elements whose number they are; the root has the first three."""


def junit(judged: Sequence[FileReport]) -> str:
    """Return the report: one suite for each file, one case for each resource that was judged.

    What fails the run fails its case, and a file that cannot be judged is an error. Other unverified findings skip the
    case, with what settles them; advice is a passing case's output.
    """
    root = Xml.Element("testsuites", name="gpupools policy")
    for file in judged:
        # Reporters tell cases apart by class and name, over all files: two files may hold objects of one name.
        path = printable(file.path)
        suite = Xml.SubElement(root, "testsuite", name=path)
        properties = Xml.SubElement(suite, "properties")
        for key, number in file.answers.items():
            Xml.SubElement(properties, "property", name=key, value=str(number))
        for problem in file.problems:
            case = Xml.SubElement(suite, "testcase", name="file", classname=path)
            Xml.SubElement(case, "error", message=printable(problem), type="unreadable")
        by_address: dict[str, list[ReportedFinding]] = {address: [] for address in file.judged}
        for finding in (*file.found, *file.waived):
            by_address.setdefault(finding.address, []).append(finding)
        for address, found in by_address.items():
            case = Xml.SubElement(suite, "testcase", name=printable(address or "all resources"), classname=path)
            waived = [one for one in found if one.waiver is not None]
            found = [one for one in found if one.waiver is None]
            refusing = [one for one in found if file.fails(one)]
            unverified = [one for one in found if one.level is FindingLevel.UNVERIFIED and one not in refusing]
            if refusing:
                message, rule = printable(refusing[0].message), refusing[0].rule.name
                failure = Xml.SubElement(case, "failure", message=message, type=rule)
                failure.text = _lines(refusing)
            elif unverified:
                message = printable(f"{unverified[0].message}; {unverified[0].settled_by}")
                Xml.SubElement(case, "skipped", message=message)
            output = _lines(one for one in found if one not in refusing)
            output += "".join(printable(f"\n{one.waiver}: {one.rule.name}: {one.message}") for one in waived)
            if output:
                Xml.SubElement(case, "system-out").text = output.strip()
    for element, counted in ((root, _COUNTED[:3]), *((suite, _COUNTED) for suite in root)):
        for name, tag in counted:
            element.set(name, str(sum(1 for _ in element.iter(tag))))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _lines(found: Iterable[ReportedFinding]) -> str:
    return "\n".join(printable(f"{finding.rule.name}: {finding.message}") for finding in found)
