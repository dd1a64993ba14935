"""Findings as JUnit XML, in the elements that Jenkins, GitLab and GitHub's test reporters have in common.

https://github.com/jenkinsci/xunit-plugin/blob/master/src/main/resources/org/jenkinsci/plugins/xunit/types/model/xsd/junit-10.xsd
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from policies.documents.judging import Judged
from policies.finding import Level

# What XML 1.0 has no way to write: https://www.w3.org/TR/xml/#charsets. ElementTree writes it all the same.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(judged: Sequence[Judged]) -> str:
    """Return the report: one suite for each file, one case for each resource that was judged.

    A violation fails the case and a file that cannot be judged is an error; advisories are a passing case's output.
    """
    root = Xml.Element("testsuites", name="gpupools policy")
    totals = {"tests": 0, "failures": 0, "errors": 0}
    for file in judged:
        suite = Xml.SubElement(root, "testsuite", name=_text(str(file.path)))
        counts = {"tests": 0, "failures": 0, "errors": len(file.problems)}
        for problem in file.problems:
            counts["tests"] += 1
            case = Xml.SubElement(suite, "testcase", name="file", classname=_text(str(file.path)))
            Xml.SubElement(case, "error", message=_text(str(problem)), type="unreadable")
        for address in dict.fromkeys((*file.judged, *(found.address for found in file.found))):
            counts["tests"] += 1
            case = Xml.SubElement(suite, "testcase", name=_text(address or "all resources"), classname=_text(file.form))
            found = [one for one in file.found if one.address == address]
            refusing = [one for one in found if one.level is Level.MANDATORY]
            if refusing:
                counts["failures"] += 1
                failure = Xml.SubElement(
                    case, "failure", message=_text(refusing[0].message), type=_text(refusing[0].rule.name)
                )
                failure.text = _text("\n".join(f"{one.rule.name}: {one.message}" for one in refusing))
            advice = [f"{one.rule.name}: {one.message}" for one in found if one not in refusing]
            if advice:
                Xml.SubElement(case, "system-out").text = _text("\n".join(advice))
        for name, count in counts.items():
            suite.set(name, str(count))
            totals[name] += count
    for name, count in totals.items():
        root.set(name, str(count))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _text(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
