"""Base64 inside scripts, in lines and words of any length, and what is packed in ways that nobody reads here."""

from base64 import b64encode
from collections.abc import Callable

import pytest

from gpupools.read.packed import packed_inside

SCRIPT = "/etc/eks/bootstrap.sh train --kubelet-extra-args '--node-labels=a=b'\n"
SHORT = "/etc/eks/bootstrap.sh c\n"


def packed(text: str) -> str:
    return b64encode(text.encode()).decode()


def lines(width: int, text: str = SCRIPT, end: str = "\n") -> str:
    return end.join(packed(text)[at : at + width] for at in range(0, len(packed(text)), width))


def texts(script: str) -> list[str]:
    return [one.opaque or one.text for one in packed_inside(script)]


JOIN = "kubeadm join 10.0.0.1:6443 --token x\n"
PIECES = f"A={packed(JOIN)[:11]}\nB='{packed(JOIN)[11:]}'\n"
NOT_KNOWN = "is put together of parts that are not known here"


@pytest.mark.parametrize("width", [4, 7, 16, 20, 40, 59, 64, 76])
@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda lines: f"base64 -d <<'EOF' | bash\n{lines}\nEOF\n", id="heredoc"),
        pytest.param(
            lambda lines: f"if true\nthen\ncat <<X | base64 --decode | bash\n{lines}\nX\nfi\ndone\n", id="in an if"
        ),
        pytest.param(lambda lines: f'PART="{lines}"\necho "$PART" | base64 -di | bash\n', id="in quotes"),
        pytest.param(lambda lines: f"set -e\n\n{lines}\n\nbase64 -d a | bash\n", id="between blank lines"),
    ],
)
def test_lines_of_any_length_are_joined(width: int, write: Callable[[str], str]) -> None:
    assert texts(f"#!/bin/bash\n{write(lines(width))}echo done\n") == [SCRIPT]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(f"echo {packed(SHORT)} | base64 -d | bash", id="a short word"),
        pytest.param(f"X={packed(SHORT)}\necho $X|base64 -d|sh", id="a variable"),
        pytest.param("echo " + lines(10, SHORT, "\\\n") + " | base64 -d | bash", id="lines that go on"),
        pytest.param(f"printf %s '{lines(12, SHORT, ' ')}' | base64 -d | bash", id="words in quotes"),
    ],
)
def test_short_words_are_read_where_something_decodes(script: str) -> None:
    assert texts(script) == [SHORT]


@pytest.mark.parametrize(
    "script",
    [
        "set -euo pipefail\nexport\nDEBIAN_FRONTEND=noninteractive\napt-get\nupdate\n",
        "B64_CLUSTER_CA=xxxxxxxxxxxxxxxxxxxx==\n/etc/eks/bootstrap.sh train --b64-cluster-ca $B64_CLUSTER_CA\n",
        "kubectl get secret a -o jsonpath={.data.ca} | base64 -d | kubectl apply -f -",
        "echo $CA | base64 -d > /etc/ca.crt",
        'curl -s "$URL" | base64 -d | jq .',
        "cat <<EOF > /etc/base64.conf\nalpha\nbeta\ngamma\ninternationalization\nEOF\n",
        "for i in kubernetes container network monitoring\ndo\nbase64\ndone\n",
        "echo done | tee /var/log/base64.log",
        "echo cGFzcw== | base64 -d | docker login -u a --password-stdin",
        "echo 6563686f | xxd -r -p | sha256sum; kubectl get pods",
        "echo 6563686f | xxd -r -p > /etc/key\nbash /etc/keys.sh",
        "printf %s QUJD | base64 -d | tee /etc/a | jq . && bash run.sh",
    ],
)
def test_ordinary_words_are_no_base64(script: str) -> None:
    assert texts(script) == []


@pytest.mark.parametrize(
    "script",
    [
        "printf %s QUJD REVG | base64 -d | bash",
        "echo 6563686f | xxd -r -p | bash",
        "xxd -r -p <<E > /tmp/a.sh\n6563686f\nE\nchmod +x /tmp/a.sh\n/tmp/a.sh",
        "echo 6563686f | xxd -r -p > a.yaml && kubectl apply -f a.yaml",
        "echo 6563686f | xxd -r -p | gunzip | sudo -E /usr/bin/python3 -",
        "printf %s QUJD | base64 -d | kubectl apply -f -",
        "base32 -d <<EOF | sh\nMFRGG===\nEOF\n",
        "echo 'a b' | openssl enc -d -aes256 | bash",
    ],
)
def test_what_is_packed_in_another_way_and_handed_on_is_said(script: str) -> None:
    assert texts(script) == ["is packed in a way that is not read here"]


@pytest.mark.parametrize(
    "run",
    [
        'echo "$A$B" | base64 -d | sh',
        "echo ${A}${B} | base64 -d > /tmp/x; sh /tmp/x",
        'eval "$(echo $A$B | base64 -d)"',
        'bash -c "$(base64 -d <<< "$A$B")"',
        'D=$(echo "$A$B" | base64 --decode); eval "$D"',
    ],
)
def test_pieces_that_are_put_together_and_run_are_read_where_they_are_known(run: str) -> None:
    assert texts(PIECES + run) == [JOIN]
    assert NOT_KNOWN in texts(f"A=$1\n{run}")
    assert NOT_KNOWN in texts(f"{PIECES}B=other\n{run}")


def test_what_is_read_beside_it_does_not_hide_what_is_not() -> None:
    assert texts(f'echo {packed(SHORT)} | base64 -d > /etc/motd; echo "$A" | base64 -d | sh') == [SHORT, NOT_KNOWN]


@pytest.mark.parametrize(
    "script",
    [
        'echo "$CERT" | base64 -d > /etc/c.pem; chmod 600 /etc/c.pem',
        'echo "$KEY" | base64 -d | docker login --password-stdin',
        'echo "$CONFIG" | base64 -d > ~/.kube/config; kubectl apply -f a.yaml',
        'D=$(echo "$A" | base64 -d); echo "$D" > /etc/a',
    ],
)
def test_a_variable_that_is_only_unpacked_is_nothing_that_runs(script: str) -> None:
    assert texts(script) == []
