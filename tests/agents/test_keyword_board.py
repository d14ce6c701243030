"""What visitors of the demo type, and the calls that come of it."""

from typing import Any

import pytest
from tests.agents.keyword_tools import BOARD, CARDS, asked_before, called_before, heard

Calls = list[tuple[str, dict[str, Any]]]


def add(title: str, column: str | None = None) -> tuple[str, dict[str, Any]]:
    return "add_card", {"title": title, **({"column": column} if column else {})}


def move(title: str, column: str) -> tuple[str, dict[str, Any]]:
    return "move_card", {"title": title, "column": column}


def remove(title: str) -> tuple[str, dict[str, Any]]:
    return "remove_card", {"title": title}


def highlight(target: str) -> tuple[str, dict[str, Any]]:
    return "highlight", {"target": target}


def fill(**values: Any) -> tuple[str, dict[str, Any]]:
    return "fill_form", values


def cards(column: str | None = None) -> tuple[str, dict[str, Any]]:
    return "list_cards", {"column": column} if column else {}


def slow(**seconds: int) -> tuple[str, dict[str, Any]]:
    return "slow_task", seconds


DARK, LIGHT = ("set_theme", {"theme": "dark"}), ("set_theme", {"theme": "light"})
CLEAR, READ = ("clear_board", {}), ("read_page", {})

ONE_WISH: list[tuple[str, Calls]] = [
    ("make it dark", [DARK]),
    ("Make it dark!", [DARK]),
    ("dark please", [DARK]),
    ("light", [LIGHT]),
    ("switch to light mode", [LIGHT]),
    ("turn on dark mode", [DARK]),
    ("turn off dark mode", [LIGHT]),
    ("could you make the page darker?", [DARK]),
    ("night mode", [DARK]),
    ("lights out", [DARK]),
    ("set theme dark", [DARK]),
    ("set_theme dark", [DARK]),
    ("theme: light", [LIGHT]),
    ("run the slow task", [slow()]),
    ("start the slow tool", [slow()]),
    ("do something slow", [slow()]),
    ("slow", [slow()]),
    ("SLOW", [slow()]),
    ("start a slow task please", [slow()]),
    ("run the slow task for 3 seconds", [slow(seconds=3)]),
    ("slow task, ten seconds", [slow(seconds=10)]),
    ("add milk", [add("milk")]),
    ("add Buy Milk", [add("Buy Milk")]),
    ("add milk to todo", [add("milk", "To do")]),
    ("add milk to the To-Do column please", [add("milk", "To do")]),
    ("put coffee in doing", [add("coffee", "Doing")]),
    ("hey, can you please add milk", [add("milk")]),
    ('add a card called "buy milk and eggs" to doing', [add("buy milk and eggs", "Doing")]),
    ("add a card titled Read the page to doing", [add("Read the page", "Doing")]),
    ('Create a new card "Write report" in the doing column', [add("Write report", "Doing")]),
    ("new card: walk the dog", [add("walk the dog")]),
    ("add a new card for milk", [add("milk")]),
    ("add bread and butter to todo", [add("bread and butter", "To do")]),
    ("add doing the dishes to todo", [add("doing the dishes", "To do")]),
    ("add clear thinking to todo", [add("clear thinking", "To do")]),
    ("add 2 litres of milk to todo", [add("2 litres of milk", "To do")]),
    ("add call mom (urgent)", [add("call mom (urgent)")]),
    ("add 🥛 to todo", [add("🥛", "To do")]),
    ("add crème brûlée to done", [add("crème brûlée", "Done")]),
    ("add <img src=x onerror=alert(1)>", [add("<img src=x onerror=alert(1)>")]),
    ("add_card title=Milk column=Doing", [add("Milk", "Doing")]),
    ("remind me to call mom", [add("call mom")]),
    ("please move milk to doing", [move("milk", "Doing")]),
    ("move MILK to done", [move("milk", "Done")]),
    ("put milk in done", [move("milk", "Done")]),
    ('move "milk" to "Done"', [move("milk", "Done")]),
    ("move eggs from done to todo", [move("eggs", "To do")]),
    ("move the ferns to doing", [move("Water the ferns", "Doing")]),
    ("move buy tea to done", [move("Buy tea", "Done")]),
    ("mark milk as done", [move("milk", "Done")]),
    ("set milk to done", [move("milk", "Done")]),
    ("bring milk back to todo", [move("milk", "To do")]),
    ("milk to done", [move("milk", "Done")]),
    ("move milk to doing then to done", [move("milk", "Done")]),
    ("move oranges to done", [move("oranges", "Done")]),
    ("delete the milk card", [remove("milk")]),
    ("remove eggs from the board", [remove("eggs")]),
    ("get rid of milk", [remove("milk")]),
    ("delete all the milk cards", [remove("milk")]),
    ("what's on the board?", [cards()]),
    ("list the cards", [cards()]),
    ("show me the cards", [cards()]),
    ("which cards are done?", [cards("Done")]),
    ("list the cards in doing", [cards("Doing")]),
    ("what do I have to do?", [cards("To do")]),
    ("highlight milk", [highlight("milk")]),
    ("highlight the done column", [highlight("Done")]),
    ("point at the fence", [highlight("Paint the fence")]),
    ("where is milk?", [highlight("milk")]),
    ("look at milk", [highlight("milk")]),
    ("show me the milk card", [highlight("milk")]),
    ("read the page", [READ]),
    ("what does the page say?", [READ]),
    ("clear the board", [CLEAR]),
    ("clear everything", [CLEAR]),
    ("delete everything", [CLEAR]),
    ("remove all cards", [CLEAR]),
    ("wipe the board", [CLEAR]),
    (
        "fill in the form with name Ada Lovelace, email ada@example.org and 2 seats",
        [fill(name="Ada Lovelace", email="ada@example.org", seats=2)],
    ),
    (
        "fill in the form: name=Ada, email=ada@example.org, seats=2, newsletter=yes",
        [fill(name="Ada", email="ada@example.org", seats=2, newsletter=True)],
    ),
    ("fill in the form for Ada Lovelace", [fill(name="Ada Lovelace")]),
    ("Please enter my name Ada Lovelace in the form", [fill(name="Ada Lovelace")]),
    (
        "my name is Ada and my email is ada@example.org",
        [fill(name="Ada", email="ada@example.org")],
    ),
    ("sign me up for the newsletter", [fill(newsletter=True)]),
    ("no newsletter please", [fill(newsletter=False)]),
    ("unsubscribe me", [fill(newsletter=False)]),
    ("book two seats", [fill(seats=2)]),
    ("set seats to 4", [fill(seats=4)]),
]

SEVERAL_WISHES: list[tuple[str, Calls]] = [
    ("add milk to todo and make it dark", [add("milk", "To do"), DARK]),
    ("add milk to todo and move it to done", [add("milk", "To do"), move("milk", "Done")]),
    ("add tea, then move tea to done", [add("tea"), move("tea", "Done")]),
    ("Add milk. Make it dark. Thanks!", [add("milk"), DARK]),
    ("dark mode, then list the cards", [DARK, cards()]),
    ("clear the board; add milk; highlight it", [CLEAR, add("milk"), highlight("milk")]),
    ("add milk, eggs and bread", [add("milk"), add("eggs"), add("bread")]),
    ('add "milk and honey" and "eggs" to doing',
     [add("milk and honey", "Doing"), add("eggs", "Doing")]),
    ("add milk, eggs and tea and move them to done",
     [add("milk"), add("eggs"), add("tea"),
      move("milk", "Done"), move("eggs", "Done"), move("tea", "Done")]),
    ("add three cards: a1, b2 and c3", [add("a1"), add("b2"), add("c3")]),
    ("put coffee in doing and cake in done", [add("coffee", "Doing"), add("cake", "Done")]),
    ("move milk and eggs to todo", [move("milk", "To do"), move("eggs", "To do")]),
    ("delete milk and bread", [remove("milk"), remove("bread")]),
    ("read the page and then run the slow task", [READ, slow()]),
    ("make it dark and sing", [DARK]),
]  # fmt: skip


@pytest.mark.parametrize(("said", "calls"), [*ONE_WISH, *SEVERAL_WISHES])
async def test_a_sentence_becomes_its_calls(said: str, calls: Calls) -> None:
    assert (await heard(said, things=CARDS)).calls == calls


@pytest.mark.parametrize(("said", "calls"), [*ONE_WISH[:26], *SEVERAL_WISHES[:5]])
async def test_it_needs_no_context_for_what_is_said_in_full(said: str, calls: Calls) -> None:
    assert (await heard(said)).calls == calls


@pytest.mark.parametrize(
    ("said", "needs"),
    [
        ("add a card", "I need a title to add a card."),
        ("move everything to done", "I need a title to move a card."),
        ("move milk", "I need a column (To do or Doing or Done) to move a card."),
        ("change the theme", "I need a theme (light or dark) to set the theme."),
        ("delete it", "I need a title to remove a card."),
        ("fill in the form",
         "I need something to fill in the form: name, email, seats, newsletter."),
        ("set the seats to 40", "I cannot fill in the form like that: seats must be from 1 to 8."),
        ("slow task for 2.5 seconds",
         "I cannot run the slow task like that: seconds must be a whole number."),
    ],
)  # fmt: skip
async def test_what_lacks_something_is_asked_for_and_not_called(said: str, needs: str) -> None:
    step = await heard(said, things=CARDS)
    assert (step.said, step.calls) == (needs, [])


@pytest.mark.parametrize(
    "said",
    ["board", "card", "everything", "what is the weather?", "sing a song", "qwertz", "!!!", "🎉",
     "all of them", "clear the done column", "empty doing", "undo",
     "the page is nice", "wie spät ist es?", "board games", "I like cards"],
)  # fmt: skip
async def test_what_is_not_understood_calls_nothing_and_says_what_it_can_do(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert step.calls == []
    assert step.said.startswith("I did not understand that.")
    assert 'add the card "tea" to Done' in step.said


@pytest.mark.parametrize(
    "said", ["hello", "Hi!", "help", "what can you do?", "What can you do here?", "list your tools"]
)
async def test_a_greeting_is_answered_with_what_it_can_do(said: str) -> None:
    step = await heard(said, things=CARDS)
    assert step.calls == []
    assert step.said.startswith("Hello! This is what I can do here")
    assert all(each.title in step.said for each in BOARD if each.title)


async def test_what_is_understood_is_done_and_the_rest_is_told() -> None:
    step = await heard("make it dark. juggle five oranges. move milk", things=CARDS)
    assert step.calls == [DARK]
    assert "I'll set the theme to dark." in step.said
    assert 'I did not understand "juggle five oranges".' in step.said
    assert "I need a column" in step.said


# ---- what "it" is ----------------------------------------------------------------------------


async def test_it_is_what_the_last_call_named() -> None:
    before = [
        asked_before("add milk and tea"),
        called_before(add("milk and tea", "To do"), DARK),
    ]
    assert (await heard("move it to done", before=before)).calls == [move("milk and tea", "Done")]
    assert (await heard("put it in done", before=before)).calls == [move("milk and tea", "Done")]
    assert (await heard("highlight that", before=before)).calls == [highlight("milk and tea")]
    assert (await heard("delete the card", before=before)).calls == [remove("milk and tea")]
    assert (await heard("make it dark", before=before)).calls == [DARK]


async def test_they_are_all_that_the_last_message_named() -> None:
    before = [asked_before("add both"), called_before(add("milk"), add("tea"))]
    said = await heard("move them to doing", before=before)
    assert said.calls == [move("milk", "Doing"), move("tea", "Doing")]
    assert (await heard("remove it", before=before)).calls == [remove("tea")]


async def test_the_newest_thing_named_is_meant_and_choices_are_no_things() -> None:
    before = [called_before(add("milk")), called_before(remove("tea")), called_before(DARK)]
    assert (await heard("add it to doing", before=before)).calls == [add("tea", "Doing")]


async def test_an_answer_to_its_question_completes_the_wish() -> None:
    before = [
        asked_before("add a card to doing"),
        called_before(said="I need a title to add a card."),
    ]
    assert (await heard("Buy Milk", before=before)).calls == [add("Buy Milk", "Doing")]
    before = [asked_before("move milk"), called_before(said="I need a column to move a card.")]
    assert (await heard("done", before=before)).calls[0][0] in ("move_card", "list_cards")


async def test_a_new_wish_after_its_question_stands_alone() -> None:
    before = [asked_before("add a card"), called_before(said="I need a title to add a card.")]
    assert (await heard("make it dark", before=before)).calls == [DARK]


async def test_broken_arguments_in_the_history_harm_nothing() -> None:
    message = called_before(add("milk"))
    assert message.tool_calls is not None
    message.tool_calls[0].function.arguments = "{[not json"
    assert (await heard("delete it", before=[message])).calls == []
