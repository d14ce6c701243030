"""The mood of a clause: whether it is an order at all.

Owns the reading of what stands before the verb: "please", "can you", "don't", "why did you". Only
an order calls a tool; a question may be answered by a tool that only looks. A clause without a
verb ("dark", "slow") is an order too. Deliberately knows nothing of tools.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import takewhile
from typing import Final

from . import english
from .tokens import Clause, Word


class Mood(Enum):
    """How a clause is meant."""

    ORDER = "order"
    SUGGESTED = "suggested"
    """ "can I", "shall we": an order, unless it is for something that destroys."""
    ASKED = "asked"
    TOLD = "told"
    """What happened, or what somebody else does."""
    REFUSED = "refused"
    """That it shall not be done."""
    ENDED = "ended"
    """That it shall stop."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_OPENERS: Final = _set(
    "please kindly hey hi hello ok okay so then and now just also but well yes yeah actually maybe"
    " finally again thanks thank next alright right no"
)
_NOT: Final = _set(
    "not dont doesnt didnt never cant cannot couldnt wont wouldnt shouldnt mustnt neednt isnt arent"
    " wasnt werent havent hasnt without neither nor aint"
)
_ASKING: Final = _set(
    "what whats which who whos whom whose why whys how hows when where wheres whether if explain"
    " unless suppose once"
)
_OF_DOING: Final = _set("why whys whether if when explain unless suppose once")
_HOW_DONE: Final = [[each] for each in sorted(_set("do does did can could should to i you"))]
_CONDITION: Final = _set("if unless when once whenever until")
_ASKERS: Final = _set("do does did have has had is are was were am should must")
_ALSO_VERBS: Final = _set("do have must")
_MODALS: Final = _set("can could would will may might shall")
_SUBJECTS: Final = _set(
    "i you we he she it they there this that someone somebody anyone anybody everyone the my your"
)
_OTHERS: Final = _set("he she it they there this that someone somebody anyone everyone nobody")
_THIRD: Final = _set("its thats theres hes shes theyre youre youve im ive weve were theyve whove")
_ENDING: Final = _set(
    "stop cancel undo abort halt quit avoid skip forget refrain prevent keep leave pause end"
    " interrupt revert ignore"
)
_WANTING: Final = _set("want need like love wish wanna gotta")
_FILLERS: Final = _set(
    "rather to me us mean mind tell show know wonder say ask be been sure try going"
)
_PAST: Final = _set("was were been had has got wasnt werent")
_PAST_VERBS: Final = _set("made sent gave took threw wrote went bought did chose built found ran")
_BEFORE_VERB: Final = (
    _OPENERS | _NOT | _ASKING | _ASKERS | _MODALS | _SUBJECTS - _set("the my your this that")
) | (_THIRD | _WANTING | _FILLERS | _set("id ill wed youd lets let"))
_NOTHING: Final = _set("nothing none nobody")
_TAKES_BACK: Final = _set("no nope dont nevermind cancel forget scratch wait undo stop")
_AROUND_TAKING_BACK: Final = _set(
    "not never mind that it please do just actually hold on sorry thanks kidding oh ah hm really"
    " all this i mean better so yet"
)
_ENDS_ANYHOW: Final = _set("anymore longer")
_IN_STEAD: Final = (("instead", "of"), ("rather", "than"))
_IF_POLITE: Final = _set("can could please possible like want may would wish")


def mood_of(clause: Clause) -> Mood:
    """How the clause is meant."""
    said = [word for word in bare_words(clause) if word.fold][:24]
    while said and (said[0].fold in _OPENERS or _is_polite_if(said)):
        said = said[1:] if said[0].fold in _OPENERS else said[3:]
    if not said:
        return Mood.ORDER
    folds = [word.fold for word in said]
    before = list(takewhile(lambda fold: fold in _BEFORE_VERB, folds))
    if _is_refused(folds, before):
        return Mood.REFUSED
    if set(before) & _ASKING:
        return Mood.TOLD if _asks_of_doing(before, folds) else Mood.ASKED
    if folds[len(before) : len(before) + 1] and folds[len(before)] in _ENDING:
        return Mood.ENDED
    return _by_opening(folds) or (Mood.TOLD if _is_told(said) else Mood.ORDER)


def holds_back(clause: Clause) -> bool:
    """Whether it says no, or if, anywhere: enough to leave alone what cannot be taken back."""
    said = {word.fold for word in bare_words(clause)}
    return bool(said & (_NOT | _CONDITION | english.EXCEPT))


def is_condition(clause: Clause) -> bool:
    """Whether what follows a clause hangs on it: "if I say so, ..."."""
    said = bare_words(clause)
    return bool(said) and said[0].fold in _CONDITION and not _is_polite_if(said)


def takes_back(clause: Clause) -> bool:
    """Whether it takes back what was said before: "no wait", "never mind"."""
    said = {word.fold for word in clause.words if not word.mark}
    known = said <= _TAKES_BACK | _AROUND_TAKING_BACK
    return known and (bool(said & _TAKES_BACK) or {"never", "mind"} <= said)


def ordered_verb(clause: Clause) -> Word | None:
    """The verb of an order: the first word behind all that is polite."""
    said = [word for word in bare_words(clause) if word.fold]
    return next((word for word in said if word.fold not in _BEFORE_VERB), None)


def bare_words(clause: Clause) -> list[Word]:
    """The words up to what is quoted or named, without marks."""
    end = len(clause) if clause.marker is None else clause.marker
    words = takewhile(lambda word: not word.quoted, clause.words[:end])
    return [word for word in words if not word.mark]


def _is_polite_if(said: Sequence[Word]) -> bool:
    return len(said) > 2 and said[0].fold == "if" and said[2].fold in _IF_POLITE


def _asks_of_doing(before: Sequence[str], folds: Sequence[str]) -> bool:
    """Whether it asks how, why or if something is done; no look at the page answers that."""
    if set(before) & _OF_DOING:
        return True
    return "how" in before and folds[folds.index("how") + 1 :][:1] in _HOW_DONE


def _is_refused(folds: Sequence[str], before: Sequence[str]) -> bool:
    if set(before) & _NOT or set(folds) & _ENDS_ANYHOW or tuple(folds[:2]) in _IN_STEAD:
        return True
    return folds[len(before) + 1 : len(before) + 2] in [[each] for each in _NOTHING]


def _by_opening(folds: Sequence[str]) -> Mood | None:
    first, second, third = [*folds[:3], "", "", ""][:3]
    if first in _MODALS and second in _SUBJECTS:
        if second == "you":
            return Mood.ORDER
        return Mood.SUGGESTED if second in ("i", "we") else Mood.ASKED
    if first in _ASKERS and (second in _SUBJECTS or first not in _ALSO_VERBS):
        return Mood.ASKED
    if first == "you":
        return Mood.ORDER if second in _MODALS | _set("should must need have") else Mood.TOLD
    if first in ("i", "we"):
        wants = {second, third} & (_WANTING | _MODALS) or second in ("should", "must")
        return Mood.ORDER if wants else Mood.TOLD
    if first in _OTHERS and second in _ASKERS | _MODALS | _PAST:
        return Mood.TOLD
    return Mood.TOLD if first in _THIRD else None


def _is_told(said: Sequence[Word]) -> bool:
    """Whether it tells of the past: "removed the fence", "the fence was removed"."""
    if _is_past(said[0]):
        return True
    if english.verbs(said[0].stem) or said[0].fold in _WANTING:
        return False
    return any(word.fold in _PAST or _is_past(word) for word in said)


def _is_past(word: Word) -> bool:
    if word.fold in english.YES | english.NO or word.fold in english.VERB_WORDS:
        return False
    ends = word.fold.endswith("ed") and bool(english.verbs(word.stem))
    return ends or word.fold in _PAST_VERBS
