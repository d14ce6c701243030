"""The English that the agent knows: words that mean alike, words that mean nothing, numbers.

Owns the tables, and how two words are compared. Deliberately knows nothing of tools.
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_VERBS: Final = {
    "add": "add create put new make insert append place jot remember remind include",
    "remove": "remove delete drop erase discard trash bin rid throw scratch unpin cross",
    "move": "move shift drag transfer push put relocate bring take mark set",
    "list": "list show display view see enumerate tell count many which what whats",
    "read": "read show view see describe summarize summarise fetch look tell what whats",
    "set": "set make turn switch change toggle put adjust update choose pick select go give use",
    "highlight": "highlight point find mark show emphasize emphasise flash spot locate focus look"
    " select where wheres",
    "clear": "clear empty wipe reset flush purge clean tidy",
    "fill": "fill enter type complete set change sign register subscribe unsubscribe signup book"
    " reserve",
    "run": "run start do execute launch begin trigger perform try use call invoke kick",
    "search": "search find look seek browse show get",
    "get": "get fetch load give show",
    "open": "open go navigate visit take",
    "close": "close hide dismiss",
    "stop": "stop halt pause cancel quit",
    "send": "send submit mail post share",
    "save": "save store keep",
    "rename": "rename retitle relabel edit change",
    "buy": "buy order purchase",
    "draw": "draw plot chart graph make create show",
    "play": "play hear watch start",
    "sort": "sort order arrange",
    "check": "check tick complete finish",
    "tag": "tag label mark",
    "apply": "apply redeem use",
    "export": "export download print",
    "import": "import upload",
    "click": "click press tap",
    "compute": "compute calculate convert translate",
}
"""A group of verbs that may stand for each other, by its name."""

_LIKE: Final = {
    "every": "every all everything each whole entire",
    "dark": "dark night dim",
    "light": "light day bright",
    "newsletter": "newsletter subscribe unsubscribe subscription mailing signup sign",
    "card": "card task item note ticket",
    "product": "product article item good thing",
    "picture": "picture image photo",
    "slow": "slow long",
}
"""The same for other words."""

_WEAK: Final = "what whats which where wheres tell do get give see look go use try call put many"
"""Said in so many senses that they hint at best."""

_NEUTRAL: Final = "run start do execute launch begin trigger perform try use call invoke get want"
"""What fits any tool says nothing about which one."""

_STOP: Final = (
    "a an the this that these those it its them they he she i id ill im ive me my mine we us our"
    " you your please kindly can could would will shall should may might must let lets just also"
    " too so then and or but now again ok okay hey hi hello thanks thank to in into on onto at of"
    " for from with by as is are am was were be been there here do does did have has had not no"
    " some any one something anything some thing things stuff tool tools mode up out off under"
    " over about want like need if when how why who via per ones another other first quickly"
    " really maybe using only same last already yes"
)

ARTICLES: Final = frozenset(
    ["a", "an", "the", "this", "that", "these", "those", "my", "our", "your", "some", "another"]
)
TO: Final = frozenset(
    [
        "to",
        "in",
        "into",
        "onto",
        "on",
        "at",
        "under",
        "as",
        "with",
        "for",
        "using",
        "be",
        "is",
        "towards",
    ]
)
FROM: Final = frozenset(["from", "off", "out", "of"])
PREPOSITIONS: Final = TO | FROM | {"about", "by", "inside", "within"}
POLITE: Final = frozenset(
    [
        "please",
        "kindly",
        "thanks",
        "thank",
        "you",
        "now",
        "too",
        "also",
        "then",
        "ok",
        "okay",
        "again",
        "for",
        "me",
        "us",
        "just",
        "quickly",
    ]
)
PRONOUNS: Final = frozenset(["it", "that", "this", "them", "they", "these", "those"])
IT: Final = frozenset(["it", "them", "they"])
MANY: Final = frozenset(["them", "they", "these", "those"])
MARKERS: Final = frozenset(
    ["called", "named", "titled", "entitled", "labelled", "labeled", "saying"]
)
CONTAINERS: Final = frozenset(
    [
        "column",
        "list",
        "lane",
        "section",
        "group",
        "card",
        "item",
        "task",
        "button",
        "tab",
        "panel",
        "mode",
        "theme",
        "one",
        "entry",
    ]
)
"""What a page calls the things it shows; "the done column" is named Done."""

GENERIC: Final = frozenset(
    ["item", "entry", "task", "thing", "something", "element", "object", "new"]
)
NEGATIONS: Final = frozenset(
    [
        "no",
        "not",
        "without",
        "dont",
        "doesnt",
        "never",
        "unsubscribe",
        "except",
        "stop",
        "isnt",
        "off",
        "out",
        "false",
    ]
)
YES: Final = frozenset(
    ["on", "true", "yes", "enable", "enabled", "enables", "activate", "active", "checked"]
)
NO: Final = frozenset(
    ["off", "false", "no", "disable", "disabled", "disables", "deactivate", "inactive", "unchecked"]
)
EVERY: Final = frozenset(["every", "all", "everything", "each", "whole", "entire"])
EXCEPT: Final = frozenset(["except", "but", "besides", "excluding", "apart"])
TOGGLING: Final = frozenset(["toggle", "switch", "flip", "invert"])
AT_MOST: Final = frozenset(
    ["under", "below", "most", "max", "maximum", "cheaper", "less", "than", "up"]
)
AT_LEAST: Final = frozenset(["over", "above", "least", "min", "minimum", "more", "from"])
GREETINGS: Final = frozenset(["hello", "hi", "hey", "yes", "ok", "okay", "thanks"])
"""Say nothing to a tool, and may be what is to be said."""

AROUND: Final = frozenset(
    ["that", "are", "is", "which", "who", "not", "no", "with", "without", "and", "only", "but"]
)
"""What leads to a yes or no: "shoes that are not | in stock"."""

PARTICLES: Final = frozenset(["up", "in", "out", "on", "off", "down", "away", "back", "over"])
LEADING: Final = (
    ARTICLES
    | PREPOSITIONS
    | {"following", "me", "us", "please", "just", "also", "of", "like", "near"}
)
"""What may stand before the text that is meant."""

_NUMBER_WORDS: Final = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
    "twenty",
]
NUMBERS: Final = {
    **{word: value for value, word in enumerate(_NUMBER_WORDS)},
    **{"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80},
    **{"ninety": 90, "hundred": 100, "couple": 2, "dozen": 12},
}

UNITS: Final = {
    **dict.fromkeys(["ms", "millis", "millisecond", "milliseconds"], 0.001),
    **dict.fromkeys(["s", "sec", "secs", "second", "seconds"], 1),
    **dict.fromkeys(["min", "mins", "minute", "minutes"], 60),
    **dict.fromkeys(["h", "hr", "hrs", "hour", "hours"], 3_600),
    **dict.fromkeys(["day", "days"], 86_400),
}
"""Of time: how many seconds."""

_ENDINGS: Final = ("iness", "ings", "ness", "ing", "ers", "ies", "ied", "er", "ed", "es", "ly")
_SHORT_ENDINGS: Final = ("s", "e", "y")
_SHORT_CHARS: Final = 48
"""Folds of texts up to this are remembered: names, choices and words come again and again."""

_STEM_CHARS: Final = 3
"""What an ending leaves."""


def fold(text: str) -> str:
    """The text without case, accents, punctuation and spaces; itself if nothing would be left."""
    return _fold_short(text) if len(text) <= _SHORT_CHARS else _fold(text)


def _fold(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).casefold()
    return "".join(c for c in plain if c.isalnum()) or text.strip()


_fold_short = lru_cache(maxsize=16_384)(_fold)


@lru_cache(maxsize=4_096)
def stem(word: str) -> str:
    """A folded word without its ending: "cards" and "card", "darker" and "dark" are one."""
    for endings in (_ENDINGS, _SHORT_ENDINGS):
        for ending in endings:
            if word.endswith(ending) and len(word) - len(ending) >= _STEM_CHARS:
                word = word[: -len(ending)]
                break
    if len(word) > _STEM_CHARS and word[-1] == word[-2]:
        word = word[:-1]
    return word


def stems(words: Iterable[str]) -> frozenset[str]:
    return frozenset(stem(word) for word in words)


def _grouped(table: dict[str, str]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for group, words in table.items():
        for word in words.split():
            found.setdefault(stem(word), set()).add(group)
    return {word: frozenset(groups) for word, groups in found.items()}


VERBS: Final = _grouped(_VERBS)
"""By stem: the groups of a verb."""

VERB_WORDS: Final = frozenset(word for words in _VERBS.values() for word in words.split())
"""The verbs as an order says them."""

LOOKING_GROUPS: Final = frozenset(("list", "read", "search", "get", "highlight"))
DESTROYING: Final = frozenset(("remove", "clear"))
"""Groups of verbs whose work cannot be taken back."""

LIKE: Final = _grouped(_LIKE)
"""By stem: the groups of another word."""

STOP: Final = frozenset(_STOP.split())
"""Folded words that say nothing by themselves."""

LOOKING: Final = stems(
    [
        "list",
        "show",
        "display",
        "view",
        "read",
        "get",
        "fetch",
        "find",
        "search",
        "look",
        "highlight",
    ]
)
"""What a tool that changes nothing is called."""

EVERY_STEMS: Final = stems(EVERY)
WEAK: Final = stems(_WEAK.split())
NEUTRAL: Final = stems(_NEUTRAL.split())
_NONE: Final[frozenset[str]] = frozenset()
_MARKED: Final = {stem: frozenset(f"~{group}" for group in found) for stem, found in LIKE.items()}


def groups(stemmed: str) -> frozenset[str]:
    """All groups of a stem; names of the two tables do not meet."""
    verbs = {f"to {group}" for group in VERBS.get(stemmed, _NONE)}
    return frozenset(verbs) | LIKE.get(stemmed, _NONE)


def like(stemmed: str) -> frozenset[str]:
    """The groups of another word than a verb, behind "~"."""
    return _MARKED.get(stemmed, _NONE)


def verbs(stemmed: str) -> frozenset[str]:
    return VERBS.get(stemmed, _NONE)
