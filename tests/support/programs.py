"""Programs that tests run in processes of their own."""

import os
import subprocess
import sys
import textwrap

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def command(program, *arguments):
    return [sys.executable, "-c", textwrap.dedent(program), *arguments]


def output_of(program, *arguments):
    done = subprocess.run(
        command(program, *arguments), capture_output=True, text=True, timeout=60, env=ENV
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
