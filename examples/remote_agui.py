"""An agent behind any AG-UI server, with the hands of a page.

    pip install '.[agui]'
    python examples/remote_agui.py http://127.0.0.1:8000/

Then open http://127.0.0.1:8765: the demo page's tools are the remote agent's frontend tools. A
server to try it with, from pydantic-ai: `AGUIAdapter.dispatch_request(request, agent=agent)`.
"""

import sys

import serving

from handspan import Bridge
from handspan.agents import RemoteAGUI


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Usage: python examples/remote_agui.py URL-OF-AN-AG-UI-SERVER")
    bridge = Bridge(agents={"default": RemoteAGUI(sys.argv[1])})
    serving.run(bridge)


if __name__ == "__main__":
    main()
