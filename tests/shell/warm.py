"""A process that has imported the command line and forks for each command: `python -m` without the
second that its imports take, and still a process of its own for each.

Reads one JSON object a line, {arguments, cwd, out, err, seconds}; writes the exit status of each,
negative for a signal. What a command says goes to the two files.
"""

import json
import os
import signal
import sys
import traceback
from typing import Any

from handspan.cli import main


def carry_out(order: dict[str, Any]) -> None:
    """Be the command; does not return."""
    signal.alarm(order["seconds"])
    os.chdir(order["cwd"])
    for number, name in ((0, os.devnull), (1, order["out"]), (2, order["err"])):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), number)
    sys.argv = ["handspan", *order["arguments"]]
    status: Any = 1
    try:
        main()
    except SystemExit as left:
        status = left.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            carry_out(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
