"""python -m skdp: check the proof of a model's file, or write a report on it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from skdp.inspection.report import digest, report
from skdp.linear_model import check_proof, load_model
from skdp.trusted import NotPrivate

COMMANDS = {
    "certify": "Check every release of a model again, and print guarantee, releases, assumptions.",
    "report": "Write one HTML page about a model, for an ethics board.",
}


def main(argv: list[str] | None = None) -> int:
    """Run a command, and return its exit code.

    It is 1 for a file whose guarantee does not follow from its releases, and 2 for one that cannot
    be read.
    """
    parser = argparse.ArgumentParser(prog="python -m skdp", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, what in COMMANDS.items():
        command = commands.add_parser(name, help=what, description=what)
        command.add_argument("file", type=Path, help="the JSON file of a model")
        if name == "report":
            command.add_argument("-o", "--output", type=Path, default=Path("report.html"))
    arguments = parser.parse_args(argv)
    try:
        model = load_model(arguments.file)
    except (OSError, ValueError) as error:
        print(f"{arguments.file} cannot be read: {error}", file=sys.stderr)
        return 2
    try:
        proof = check_proof(model)
    except NotPrivate as error:
        print(f"{arguments.file}: NOT PROVED. {error}", file=sys.stderr)
        return 1
    if arguments.command == "report":
        content = report(model, proof, arguments.file)
        arguments.output.write_text(content, encoding="utf-8")
        print(f"Saved {arguments.output}.")
        return 0
    # A file cannot move the cursor or hide a line.
    shown = (c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in str(proof))
    print(f"{arguments.file}\nSHA-256 {digest(arguments.file)}\n\n{''.join(shown)}")
    if not proof.guarantee.holds:
        print(f"\n{arguments.file}: THE GUARANTEE DOES NOT HOLD, see VOID.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
