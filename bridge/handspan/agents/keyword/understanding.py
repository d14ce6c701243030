"""From a message to what is to be done: the wishes in it, and a tool's call for each.

Owns where one wish ends and the next begins: at "and", "then" or a comma only if what follows is a
wish of its own ("add milk and make it dark" is two, "add bread and butter" one). Pure: the same
message, tools and history give the same plan.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from . import english
from .consent import acts, ends_what_runs, is_held, says_what
from .explicit import NamedCall, json_at, named_call, pairs_in
from .matching import ENOUGH, Match, Matching, match_of
from .memory import Names, things_named
from .mood import Mood, holds_back, is_condition, mood_of, ordered_verb, takes_back
from .params import Param
from .sheet import CHOICE
from .skill import Skill
from .tokens import Clause, Word, words_of

Json = Any
Judge = Callable[[Skill, Mapping[str, Json]], Sequence[str]]
"""What is wrong with arguments, under the tool's schema."""

LOOKED_AT_CHARS: Final = 4_000
"""Of a message; more is a document, no wish."""

WORDS_MAX: Final = 120
"""Of those."""

CUTS_MAX: Final = 16
"""Places where a wish might end that are looked at; what follows belongs to the last."""

WISHES_MAX: Final = 32
"""Calls of one message. *Source:* Policy.calls_per_step has 64."""

_SPLITS: Final = frozenset(("and", "then", "also", "plus", "afterwards", "but", "&"))
_GOES_ON: Final = frozenset(("and", "then", "plus", "&"))
_LIST: Final = re.compile(r"\ws:[^:;.!?\n]{1,400}(?:;[^:;.!?\n]{1,400})+[.!]?\s*\Z")
_WEAK_MARK: Final = ","
_STRONG_MARKS: Final = frozenset(";.!?\n")
_GREETING: Final = re.compile(
    r"help|helpme|hello|hi|hey|hithere|hellothere|heythere|goodmorning|whatcanyoudo\w{0,12}"
    r"|what(?:can|could|should)i(?:do|say|type|ask)\w{0,8}|whatareyou|whoareyou|howareyou|howdoesthiswork|commands|tools|menu"
    r"|whatdoyoudo|(?:(?:list|show|showme|what|which)(?:all|the|your|are|areyour|arethe)?)"
    r"(?:tools|commands|options|functions)(?:doyouhave|arethere|canyouuse)?"
)

_THANKS: Final = re.compile(
    r"(?:ok|okay|great|cool|perfect)?(?:thanks|thankyou|thx|cheers|great|cool|perfect|nice|welldone)"
    r"(?:alot|verymuch|somuch|again)?"
)


@dataclass(frozen=True, slots=True)
class Wish:
    """A call to make."""

    name: str
    args: Mapping[str, Json]
    skill: Skill | None = None


@dataclass(frozen=True, slots=True)
class Ask:
    """A wish that lacks something."""

    skill: Skill
    missing: tuple[Param, ...]
    problems: tuple[str, ...] = ()
    one_by_one: bool = False
    """Whether many things were meant, and it does one at a time."""


@dataclass(frozen=True, slots=True)
class Left:
    """A call that was understood, and is not made."""

    mood: Mood
    skill: Skill | None = None
    args: Mapping[str, Json] | None = None
    """None when they are not all known."""


@dataclass(slots=True)
class Plan:
    """What a message comes to."""

    wishes: list[Wish] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    not_now: list[Skill] = field(default_factory=list)
    """Meant, and not available."""
    left: list[Left] = field(default_factory=list)
    """What was no order."""
    absent: list[str] = field(default_factory=list)
    """Things to be removed that are not there."""
    unknown: list[str] = field(default_factory=list)
    """Parts that were not understood."""
    is_greeting: bool = False
    is_thanks: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.wishes or self.asks or self.not_now or self.left or self.absent)


class Understanding:
    """Of one message, with the tools and names of its moment; used once."""

    def __init__(self, skills: Sequence[Skill], names: Names, judge: Judge) -> None:
        self._skills = skills
        self._by_name = {skill.name: skill for skill in skills if skill.tool.available}
        self._names = names
        self._judge = judge
        self._plan = Plan()
        self._before = Mood.ORDER
        """The mood of the clause before."""
        self._on_condition = False
        """Whether it began with "if"."""

    @cached_property
    def _matching(self) -> Matching:
        return Matching(self._skills)

    def of(self, message: str) -> Plan:
        text = _with_commas(message[:LOOKED_AT_CHARS])
        self._plan.is_greeting = _GREETING.fullmatch(english.fold(text)[:60]) is not None
        self._plan.is_thanks = _THANKS.fullmatch(english.fold(text)[:60]) is not None
        if (self._plan.is_greeting or self._plan.is_thanks) and not self._is_name(text):
            return self._plan
        text = self._taken_json(text)
        for joint, clause in self._clauses(text):
            if len(self._plan.wishes) < WISHES_MAX:
                self._understand(clause, self._mood(joint, clause))
        return self._plan

    def _mood(self, joint: Sequence[Word], clause: Clause) -> Mood:
        """Its own; or, of "why did you add milk | and clear the board", that of what it goes on."""
        own = mood_of(clause)
        if own is not Mood.ORDER or not self._goes_on(joint):
            self._before = own
            self._on_condition = is_condition(clause)
        return self._before

    def _goes_on(self, joint: Sequence[Word]) -> bool:
        if not joint or _ends(joint):
            return False
        return self._on_condition or {word.fold for word in joint} <= _GOES_ON

    def _is_name(self, text: str) -> bool:
        return any(
            english.fold(skill.name) == english.fold(text) for skill in self._by_name.values()
        )

    # ---- calls by name -----------------------------------------------------------------------

    def _taken_json(self, text: str) -> str:
        """The text without the calls with JSON that it begins with, which are planned."""
        while (call := named_call(text, self._by_name)) is not None and call.gives_json:
            read = json_at(call.rest)
            if read is None or len(self._plan.wishes) >= WISHES_MAX:
                break
            args, rest = read
            self._plan_call(call.name, args)
            text = re.sub(r"\A[\s,;.]*(?:and|then)?\s*(?:then\s+)?", "", rest)
        return text

    def _named(self, call: NamedCall) -> None:
        skill = self._by_name.get(call.name)
        if call.gives_json:  # broken, or it would have been taken
            self._plan.unknown.append(f"{call.name} {call.rest}")
            return
        if skill is None:
            self._plan.wishes.append(Wish(call.name, pairs_in(call.rest)))
            return
        match = match_of(Clause(call.rest, words_of(call.rest, WORDS_MAX)), skill, self._names)
        pairs = {key: value for key, value in pairs_in(call.rest).items() if key in skill.keys}
        if match is not None and match.tells_as_much_as(pairs):
            self._plan_match(match)
        else:
            self._plan_call(call.name, pairs)

    # ---- wishes ------------------------------------------------------------------------------

    def _understand(self, clause: Clause, mood: Mood) -> None:
        text = clause.text(0, len(clause))
        if takes_back(clause) and (self._plan.wishes or self._plan.asks):
            self._take_back()
            return
        call = named_call(text, self._by_name)
        if call is not None and call.is_certain and mood is Mood.ORDER:
            self._named(call)
            return
        match = self._matching.best(clause, self._names)
        if mood is Mood.ASKED and not acts(clause):
            match = self._matching.best(clause, self._names, looking=True)
        if match is None and call is not None and mood is Mood.ORDER:
            self._named(call)
        elif match is None:
            self._not_matched(clause, mood)
        elif is_held(clause, match, mood):
            self._leave(clause, match, mood)
        elif not says_what(clause, match):
            self._plan.unknown.append(text)
        elif (absent := self._absent(clause, match)) is not None:
            self._plan.absent.append(absent)
        else:
            self._before = Mood.ORDER
            self._plan_match(match)

    def _not_matched(self, clause: Clause, mood: Mood) -> None:
        if mood is Mood.REFUSED or (mood is Mood.ENDED and ends_what_runs(clause)):
            self._plan.left.append(Left(mood))
        elif _says_something(clause):
            self._plan.unknown.append(clause.text(0, len(clause)))

    def _take_back(self) -> None:
        self._plan.wishes.clear()
        self._plan.asks.clear()
        self._plan.left.append(Left(Mood.REFUSED))

    def _leave(self, clause: Clause, match: Match, mood: Mood) -> None:
        args = match.filled.args[0] if match.is_complete else None
        named = things_named(match.skill, args or {})
        if any(self._names.spelled(text) is None for text in named):
            args = None
        if mood is Mood.ORDER and not holds_back(clause):
            mood = Mood.TOLD
        self._plan.left.append(Left(mood, match.skill, args))

    def _absent(self, clause: Clause, match: Match) -> str | None:
        """What is to be removed and is not there; quoted, it is taken at its word."""
        if not (match.skill.takes_away and self._names.shown):
            return None
        if any(word.quoted for word in clause.words):
            return None
        named = [text for args in match.filled.args for text in things_named(match.skill, args)]
        return next((text for text in named if self._names.spelled(text) is None), None)

    def _plan_match(self, match: Match) -> None:
        if not match.skill.tool.available:
            self._plan.not_now.append(match.skill)
            return
        if not match.is_complete:
            one_by_one = match.filled.of_many and match.skill.takes_away
            told = match.filled
            self._plan.asks.append(Ask(match.skill, told.missing, told.problems, one_by_one))
            return
        for args in match.filled.args:
            self._plan_call(match.skill.name, args)
        named = [text for args in match.filled.args for text in things_named(match.skill, args)]
        lost = match.skill.takes_away
        self._names = self._names.having_lost(named) if lost else self._names.having_named(named)

    def _plan_call(self, name: str, args: Mapping[str, Json]) -> None:
        skill = self._by_name.get(name)
        problems = self._judge(skill, args) if skill is not None else ()
        if skill is not None and problems:
            lacking = tuple(param for param in skill.params if param.name not in args)
            missing = tuple(param for param in lacking if param.required)
            none_given = lacking if not args else ()
            said = () if missing or none_given else tuple(problems)
            self._plan.asks.append(Ask(skill, missing or none_given, said))
        elif len(self._plan.wishes) < WISHES_MAX:
            self._plan.wishes.append(Wish(name, args, skill))

    # ---- where a wish ends -------------------------------------------------------------------

    def _clauses(self, text: str) -> Iterator[tuple[list[Word], Clause]]:
        """The wishes of a message, each with what stands before it.

        What is no wish of its own belongs to the one before.
        """
        here: list[Word] = []
        before: list[Word] = []
        for joint, part in _parts(words_of(text, WORDS_MAX)):
            own = part if not here or _ends(joint) else self._of_its_own(text, here, part)
            if own is None:
                here = [*here, *joint, *part]
                continue
            if here:
                yield before, Clause(text, here)
            here, before = own, joint
        if here:
            yield before, Clause(text, here)

    def _of_its_own(self, text: str, here: list[Word], part: list[Word]) -> list[Word] | None:
        """The words of a part that is a wish of its own, the verb of the one before included."""
        clause = Clause(text, part)
        call = named_call(clause.text(0, len(clause)), self._by_name)
        if (call is not None and call.is_certain) or self._refuses(clause):
            return part
        begins = self._matching.begins_wish(clause)
        if not (begins or self._matching.has_choice(clause)):
            return None
        match = self._matching.best(clause, self._names)
        if begins:
            return part if match and (match.leaves == 0 or match.skill.texts) else None
        before = self._matching.best(Clause(text, here), self._names)
        if before is not None and before.filled.missing and self._completes(text, here, part):
            return None
        alike = self._like_before(text, here, part, before)
        return alike or (part if match and _is_choice(clause, match, before) else None)

    def _refuses(self, clause: Clause) -> bool:
        """Whether it says not to do what some tool does, or takes back what was said."""
        if takes_back(clause):
            return True
        verb = ordered_verb(clause)
        begins = verb is not None and self._matching.is_verb(verb.stem)
        return begins and mood_of(clause) is Mood.REFUSED

    def _completes(self, text: str, here: list[Word], part: list[Word]) -> bool:
        """Whether a part is what the wish before lacks: "move tea | and milk to done"."""
        whole = self._matching.best(Clause(text, [*here, *part]), self._names)
        return whole is not None and whole.is_complete

    def _like_before(
        self, text: str, here: list[Word], part: list[Word], before: Match | None
    ) -> list[Word] | None:
        """ "put tea in doing | and coffee in done": the second with the verb of the first."""
        head = Clause(text, here).head
        if before is None or head is None or not before.filled.has_choice:
            return None
        if not before.is_complete:
            return None
        whole = [here[head], *part]
        match = match_of(Clause(text, whole), before.skill, self._names)
        if match is None or not match.is_complete or not match.filled.has_choice:
            return None
        return whole if match.score >= ENOUGH and not match.leaves else None


def _with_commas(text: str) -> str:
    """The text with commas in a list that has semicolons: "add these cards: a; b; c"."""
    found = _LIST.search(text)
    return text if found is None else text[: found.start()] + found[0].replace(";", ",")


def _is_choice(clause: Clause, match: Match, before: Match | None) -> bool:
    """Whether a part without a verb says all that another tool needs: "add milk, dark mode"."""
    if clause.fold_at(0) in english.PREPOSITIONS or match.leaves or not match.is_complete:
        return False
    other = before is None or before.skill.name != match.skill.name
    return other and match.filled.has_choice and match.filled.evidence >= CHOICE


def _parts(words: Sequence[Word]) -> Iterator[tuple[list[Word], list[Word]]]:
    """The words cut wherever a wish might end: what stands at the cut, then the part."""
    joint: list[Word] = []
    part: list[Word] = []
    cuts = 0
    for word in words:
        if cuts >= CUTS_MAX or not _cuts(word) or _is_exception(word, part):
            part.append(word)
            continue
        if part:
            cuts += 1
            yield joint, part
            joint, part = [], []
        joint.append(word)
    if part:
        yield joint, part


def _is_exception(word: Word, part: Sequence[Word]) -> bool:
    """Whether it is the "but" of "everything but tea"."""
    return word.fold == "but" and any(each.fold in english.EVERY for each in part)


def _ends(joint: Sequence[Word]) -> bool:
    """Whether a sentence ends here, whatever comes next."""
    return any(word.text in _STRONG_MARKS for word in joint if word.mark)


def _cuts(word: Word) -> bool:
    if word.mark:
        return word.text == _WEAK_MARK or word.text in _STRONG_MARKS
    return not word.quoted and word.fold in _SPLITS


def _says_something(clause: Clause) -> bool:
    return any(not word.mark and not word.is_stop for word in clause.words)
