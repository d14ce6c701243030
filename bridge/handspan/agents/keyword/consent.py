"""Whether a call that was understood may be made, for how it was said.

Owns the caution: a question calls nothing but what looks; what destroys is to be ordered, without
if and but, by what it destroys.
"""

from . import english
from .matching import Match
from .mood import Mood, bare_words, holds_back, ordered_verb
from .skill import Skill
from .tokens import Clause, Word


def is_held(clause: Clause, match: Match, mood: Mood) -> bool:
    """Whether the call that was understood must not be made, for how it was said."""
    skill = match.skill
    if mood is Mood.ORDER:
        return skill.takes_away and (holds_back(clause) or not _is_ordered(clause, skill))
    if mood is Mood.SUGGESTED:
        return skill.takes_away
    if mood is Mood.ASKED:
        return not skill.looks
    verb = ordered_verb(clause)
    return mood is not Mood.ENDED or verb is None or skill.weight(verb.stem) <= 0


def says_what(clause: Clause, match: Match) -> bool:
    """Whether a tool that destroys and asks for nothing was asked for by what it destroys."""
    skill = match.skill
    if not skill.takes_away or skill.params:
        return True
    said = [word for word in bare_words(clause) if not word.is_stop]
    nouns = skill.objects or skill.leading
    if not any(word.stem in nouns or word.fold in english.EVERY for word in said):
        return False
    return all(skill.weight(word.stem) > 0 or _is_manner(word) for word in said)


def acts(clause: Clause) -> bool:
    """Whether a verb in it is one of doing, not of looking."""
    groups = (english.verbs(word.stem) for word in bare_words(clause) if not word.is_stop)
    return any(each and not each & english.LOOKING_GROUPS for each in groups)


def ends_what_runs(clause: Clause) -> bool:
    """Whether it asks for an end of what runs: "stop", "cancel the slow task"."""
    verb = ordered_verb(clause)
    return verb is not None and "stop" in english.verbs(verb.stem)


def _is_ordered(clause: Clause, skill: Skill) -> bool:
    """Whether it begins with the tool's verb, as an order says it."""
    words = bare_words(clause)
    verb = ordered_verb(clause)
    if verb is None:
        return False
    first = words.index(verb)
    spoken = (word for word in words[first : first + 2] if word.fold in english.VERB_WORDS)
    return any(
        skill.weight(w.stem) > 0 and english.verbs(w.stem) & english.DESTROYING for w in spoken
    )


def _is_manner(word: Word) -> bool:
    dull = english.EVERY | english.CONTAINERS | english.PARTICLES
    return word.fold in dull or word.stem in english.NEUTRAL or word.text.endswith("ly")
