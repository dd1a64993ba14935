"""The command `gpupools`.

Exit codes: 0 success, 1 rejected configuration, violated policy or failed output, 2 incorrect call.
"""

import argparse
import io
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from typing import Any, NoReturn

from gpupools.common.errors import nearest, shown
from gpupools.common.input_files import limit_to
from gpupools.common.sdk import NEED, is_missing
from gpupools.console.output import printable, tell, tell_lines
from gpupools.console.startup import end_lightly, start_lightly
from gpupools.console.terminal import DEFAULT_COLUMNS, columns, columns_from_environment

GROUPS = {
    "Create": {
        "new": "generate a stack file from flags and questions, or a whole project",
        "import": "generate a stack file that imports existing node pools",
    },
    "Check": {
        "check": "validate stack files without Pulumi and without cloud access",
        "preview": "show offline what a stack file would create",
        "diff": "show how an edit of a stack file affects running nodes",
        "fit": "say which pools take the pods of manifests, and why pods of a cluster wait",
    },
    "Review": {
        "report": "write an HTML page or a pull request comment about what stack files would create",
        "policy": "check Terraform plans, Pulumi previews and states, and Kubernetes manifests against the policies",
        "stacks": "list the stacks of a repository with their accounts, pools, changes and deployment order",
    },
    "Operate": {
        "ready": "check whether live clusters offer the GPUs of a stack file, and wait until they do",
        "orphans": "list resources that an interrupted update left behind, and how to import or delete them",
        "render": "print the objects that share pools among teams, for Argo CD and Flux",
        "images": "list the images and charts that a stack file needs, with digests, to mirror them",
        "prices": "make a file of prices for a stack file from the price lists that the clouds publish",
    },
    "Look up": {
        "catalog": "list the instance types with NVIDIA GPUs",
        "mig": "show MIG profiles, check whether slices fit on a GPU, and compute the fewest GPUs for a set of slices",
        "matrix": "show which GPU sharing modes each cloud supports",
        "explain": "explain a term, a key, a policy rule or an error message, with its source",
        "schema": "print the JSON schema of stack files for editors",
        "completion": "print a shell script that completes commands and options",
    },
}
"""Commands with their line of help, as `gpupools --help` groups them."""

COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
"""Commands with their line of help. The module of a command is imported only when the command runs."""

ALIASES = {"leftovers": "orphans"}
"""Former names of commands, which still work and are not listed."""

_MODULES = {"import": "import_pools"}
"""Commands whose module has another name: `import` is a keyword of Python."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _make_writable()
    called = next((name for word in words if (name := ALIASES.get(word, word)) in COMMANDS), None)
    if (file := _option_that_is_a_file(words)) is not None:
        tell(f"gpupools: {file} is both an option and a file; put -- before the files, or write ./{file}", error=True)
        return 2
    try:
        whole = parser([called] if called else [], alone=ALIASES.get(words[0], words[0]) == called if words else False)
        if not words:
            whole.print_help(sys.stderr)
            return 2
        given = whole.parse_args(words)
        limit_to(getattr(given, "within", None))
        from gpupools.cli.help_texts import exit_code  # imports much, as each command does

        code = exit_code(called or "", given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader closed the pipe: `gpupools … | head`
        _discard_output()
        return 1
    except OSError as error:  # e.g. a full disk, or no folder for temporary files
        _discard_output()
        about = f"{error.filename}: " if error.filename is not None else ""
        tell(f"gpupools {called}: {about}{error.strerror or error}", error=True)
        return 1
    except ModuleNotFoundError as error:
        if not is_missing(error):
            raise
        tell(f"gpupools {called} requires {NEED}", error=True)
        return 2
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if "KeyboardInterrupt" in str(error):  # while pydantic built a model, which wraps it
            return 130
        raise
    return code


def parser(commands: Collection[str], *, alone: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the arguments of some commands.

    Args:
        commands: Commands whose modules are imported for their arguments.
        alone: Omit all other commands, for a command line that starts with one of them.
    """
    whole = _Parser(
        prog="gpupools",
        description="GPU node pools as code on EKS, AKS and GKE.",
        epilog=(
            "gpupools COMMAND --help shows the options and examples of a command.\n"
            "The documentation is in the folder docs/ of the gpupools repository."
        ),
        formatter_class=_Help,
    )
    whole.add_argument("--version", action=_Version)
    # With `prog` set, argparse does not format a usage text to derive it.
    each = whole.add_subparsers(dest="command", required=True, metavar="COMMAND", prog=whole.prog)
    whole._positionals._group_actions.clear()  # the commands are listed in groups instead
    for title, group_commands in GROUPS.items():
        group = whole.add_argument_group(title)
        for name, text in group_commands.items():
            if alone and name not in commands:
                continue
            aliases = [alias for alias, command in ALIASES.items() if command == name]
            description = f"{text[0].upper()}{text[1:]}."
            command = each.add_parser(name, aliases=aliases, help=text, description=description, formatter_class=_Help)
            entry = each._choices_actions[-1]
            entry.metavar = name  # without its aliases
            group._group_actions.append(entry)
            if name in commands:
                import_module(f"gpupools.cli.{_MODULES.get(name, name)}").add(command)
    whole._action_groups.append(whole._action_groups.pop(1))  # the options of gpupools itself come last
    return whole


def _option_that_is_a_file(words: Sequence[str]) -> str | None:
    """Return the first option that is also the name of an existing file; None if there is none.

    Hooks and shell patterns pass file names of a checkout, and one of them may be `--config=weak.json`. `--` separates
    options and files.
    """
    if "--" in words:
        return None
    return next((word for word in words if word.startswith("-") and word != "-" and os.path.lexists(word)), None)


def _make_writable() -> None:
    """Make the output streams accept any text: a stream may be closed (`>&-`), or only support ASCII or Latin-1."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="replace")


def _discard_output() -> None:
    """Discard the buffered output, so that Python does not report an error when it closes the stream."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Prints usage errors like all other output."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Suggest the closest choice instead of listing all."""
        if action.choices is not None and value not in action.choices:
            what = "is not a command" if isinstance(action, argparse._SubParsersAction) else "is not an allowed value"
            raise argparse.ArgumentError(action, f"{shown(value)} {what}; {nearest(value, action.choices)}")

    def _print_message(self, message: str, file: object = None) -> None:
        if message:
            tell_lines(message, error=file is not sys.stdout)


class _Version(argparse.Action):
    """Prints the installed version, which is looked up only when needed."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        version = import_module("gpupools.common.version").version()
        tell(f"gpupools {version}")
        parser.exit()


class _Help(argparse.HelpFormatter):
    """Formats help for the width of the terminal, without importing `shutil` for each argument as argparse does."""

    def __init__(self, prog: str) -> None:
        super().__init__(
            prog, width=max((columns_from_environment() or columns(sys.stdout) or DEFAULT_COLUMNS) - 2, _NARROWEST)
        )

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Keep the line breaks of examples and lists."""
        return text if "\n" in text else super()._fill_text(text, width, indent)


_NARROWEST = 20


def program() -> int:
    """Run the command and end the process."""
    start_lightly()
    # Objects that an interrupt leaves incomplete print irrelevant errors when they are freed.
    sys.unraisablehook = lambda _: None
    code = main()
    end_lightly()
    return code


if __name__ == "__main__":
    sys.exit(program())
