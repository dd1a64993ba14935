"""What of a shell's words is written out before a script is searched for what joins a cluster."""

import re

import pytest

from gpupools.providers.aws.joining import joining, with_held

JOIN = re.compile("kubeadm|join")


@pytest.mark.parametrize(
    ("script", "written"),
    [
        ("a=kubeadm\n$a join", "a=kubeadm\nkubeadm join"),
        ("a=kubeadm b='join'\n$a ${b} x", "a=kubeadm b='join'\nkubeadm join x"),
        ('a=(kubeadm join)\n"${a[@]}" x', "a=(kubeadm join)\nkubeadm join x"),
        ("a=train\n$a join", "a=train\n$a join"),
        ("join=b ab=join\n$abc $ab", "join=b ab=join\n$abc join"),
        ('a="$b join"\n$a', 'a="$b join"\n$a'),
        ("a=kube b=adm\n$a$b join", "a=kube b=adm\nkubeadm join"),
        ("a=kube\n${a}adm join", "a=kube\nkubeadm join"),
        ("a=adm\nkube$a join", "a=adm\nkubeadm join"),
        ('a=kube b=adm\n"$a""$b" join', "a=kube b=adm\nkubeadm join"),
        ("a=b\n$a /x/$a $a.sh", "a=b\n$a /x/$a $a.sh"),
        ('a=b\necho "\\n${a}\\n"', 'a=b\necho "\\n${a}\\n"'),
        ("kubeadm join", "kubeadm join"),
    ],
)
def test_variables_are_written_out_where_their_value_is_wanted(script: str, written: str) -> None:
    assert with_held(script, JOIN) == written


def test_no_more_variables_and_uses_are_written_out_than_are_bounded() -> None:
    many = "".join(f"a{number}=join\n" for number in range(21))
    assert with_held(f"{many}$a19 $a20", JOIN) == f"{many}join $a20"
    assert with_held("a=join\n" + "$a " * 201, JOIN) == "a=join\n" + "join " * 200 + "$a "


@pytest.mark.parametrize(
    ("script", "joins", "may"),
    [
        ("kubeadm join x", True, False),
        ("kubeadm $MODE x", False, True),
        ("echo kubeadm $MODE", False, False),
        ("alias k=kubeadm\nk join x", True, False),
        ("j() { sudo k3s $@; }\nj agent --server x", True, True),
        ("alias k=kubectl\nk join x", False, False),
        ("xargs kubeadm", False, True),
        ("xargs echo kubeadm", False, False),
    ],
)
def test_what_stands_for_a_program_that_joins_is_it(script: str, joins: bool, may: bool) -> None:
    found = joining(script)
    assert (found.joins, found.may) == (joins, may)
