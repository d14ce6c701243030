"""Thoughts told from text in one stream."""

import pytest

from handspan.model.think_tags import ThinkTags


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 100])
@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>a < b</think>\n\nSo.", "a < b", "So."),
        ("  <think></think>So.", "", "So."),
        ("<think>never ends </thi", "never ends </thi", ""),
        ("<thin air", "", "<thin air"),
        ("No <think>tags</think>", "", "No <think>tags</think>"),
        ("", "", ""),
    ],
)
def test_thoughts_are_told_from_text_wherever_the_stream_is_cut(
    text: str, thought: str, said: str, size: int
) -> None:
    thoughts = ThinkTags()
    parts = [
        part for at in range(0, len(text), size) for part in thoughts.split(text[at : at + size])
    ]
    parts += thoughts.rest()
    assert "".join(each for is_thought, each in parts if is_thought) == thought
    assert "".join(each for is_thought, each in parts if not is_thought) == said
