"""What the agent says: short sentences for what it will do, what came of it, and what it can do.

Owns the wording. A phrase for a call is one that the agent itself would understand.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from handspan_protocol.strict_json import scrub

from . import english
from .leftover import joined
from .memory import Names
from .mood import Mood
from .params import Param, parts_of
from .skill import Skill
from .understanding import Ask, Left, Plan, Wish

Json = Any

VALUE_CHARS: Final = 60
"""Of one value in a sentence."""

RESULT_CHARS: Final = 400
"""Of one result."""

SHOWN_TOOLS: Final = 12
"""That are listed; the rest is counted."""

_ITEMS: Final = 12
_DEPTH: Final = 3

_FAILURES: Final = {
    "denied": "was not allowed",
    "approval_expired": "was not approved in time",
    "timeout": "took too long and was stopped",
    "aborted": "was stopped",
    "aborted_before_start": "was stopped before it began",
    "unknown_tool": "is nothing that this page has",
    "unavailable": "is not available now",
    "no_client": "needs a page, and none is open",
    "page_gone": "was not done: the page went away",
    "outcome_unknown": "may or may not have been done: the page went away in the middle",
}
"""In words, what became of a call; for other codes the error's own message is told."""


# ---- before ----------------------------------------------------------------------------------


def announcement(plan: Plan, skills: Sequence[Skill], names: Names) -> str:
    """What the agent says before it acts."""
    if plan.is_thanks:
        return "You are welcome."
    if plan.is_empty:
        return _offer(plan, skills, names)
    said = [*_promises(plan.wishes), *(_question(ask) for ask in plan.asks)]
    said += [f"{skill.title} is not available now." for skill in plan.not_now]
    left = [each for each in plan.left if not (each.mood is Mood.REFUSED and plan.wishes)]
    said += list(dict.fromkeys(_left(each) for each in left))
    said += [f"I see no {_quote(text)} here, so I removed nothing." for text in plan.absent]
    said += [f"I did not understand {_quote(text)}." for text in plan.unknown]
    return " ".join(said)


def phrase(skill: Skill, args: Mapping[str, Json]) -> str:
    """A call as an order: add the card "milk" to Done."""
    said, rest = _with_main_text(skill, args)
    placed = next((p for p in skill.params if p.choices and p.name in rest), None)
    own = parts_of(skill.title)
    if placed is not None and (said != _order(skill) or set(placed.words) & set(own)):
        to = "" if " to " in said else "to "
        said += f" {to}{_told(rest.pop(placed.name))}"
    switch = next((p for p in skill.params if english.YES & set(p.words) and p.name in rest), None)
    if switch is not None:
        said += " on" if rest.pop(switch.name) else " off"
    details = [_detail(skill, name, value) for name, value in rest.items()]
    return f"{said} with {joined(details)}" if details else said


def _promises(wishes: Sequence[Wish]) -> list[str]:
    if not wishes:
        return []
    doing = [
        phrase(wish.skill, wish.args) if wish.skill else _unknown_phrase(wish) for wish in wishes
    ]
    return [f"I'll {joined(doing)}."]


def _left(left: Left) -> str:
    """Why a call that was understood is not made."""
    if left.mood is Mood.ENDED:
        return "I started nothing; the Stop button ends what runs."
    if left.mood is Mood.REFUSED or left.skill is None:
        return "I left it alone."
    if left.mood is Mood.ORDER:
        return "I left it alone: say it without if and but, and I will do it."
    told = _order(left.skill) if left.args is None else phrase(left.skill, left.args)
    return f"I did nothing, as I only do what I am told to. To have it done, say: {told}."


def _unknown_phrase(wish: Wish) -> str:
    details = [f"{name} {_told(value)}" for name, value in wish.args.items()]
    return f"call {wish.name}" + (f" with {joined(details)}" if details else "")


def _order(skill: Skill) -> str:
    title = skill.title
    lower = title if title[1:2].isupper() else title[:1].lower() + title[1:]
    parts = parts_of(title)
    is_order = bool(parts) and bool(english.verbs(english.stem(parts[0])))
    return lower if is_order else f"run the {lower}"


def _with_main_text(skill: Skill, args: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """The order with its main text in it, and the arguments that are left."""
    said, rest = _order(skill), dict(args)
    main = next((param for param in skill.texts if param.required), None)
    if main is None or not isinstance(rest.get(main.name), str):
        return said, rest
    for article in (" a ", " an "):
        said = said.replace(article, " the ", 1)
    return f"{said} {_quote(rest.pop(main.name))}", rest


def _detail(skill: Skill, name: str, value: Json) -> str:
    param = next((each for each in skill.params if each.name == name), None)
    return f"{param.said if param else name} {_told(value)}"


def _told(value: Json) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return joined([_told(each) for each in value[:_ITEMS]])
    if isinstance(value, str):
        bare = value.replace(" ", "").replace("@", "").replace(".", "").isalnum()
        return _cut(value, VALUE_CHARS) if bare and len(value.split()) < 3 else _quote(value)
    return _cut(json.dumps(value, ensure_ascii=False, default=str), VALUE_CHARS)


def _quote(text: str) -> str:
    cut = _cut(" ".join(scrub(text).split()), VALUE_CHARS)
    return f"“{cut}”" if '"' in cut else f'"{cut}"'


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[: chars - 1].rstrip() + "…"


# ---- asking ----------------------------------------------------------------------------------


def _question(ask: Ask) -> str:
    if ask.problems:
        return f"I cannot {_order(ask.skill)} like that: {'; '.join(ask.problems)}."
    needed = [_needed(param) for param in ask.missing]
    if any(param.required for param in ask.missing):
        once = ", one at a time" if ask.one_by_one else ""
        return f"I need {joined(needed)} to {_order(ask.skill)}{once}."
    return f"I need something to {_order(ask.skill)}: {', '.join(p.said for p in ask.missing)}."


def _needed(param: Param) -> str:
    article = "an" if param.said[:1] in "aeiou" else "a"
    said = f"{article} {param.said}"
    if param.choices:
        return f"{said} ({' or '.join(str(c) for c in param.choices[:_ITEMS])})"
    return f"{said} (on or off)" if param.kind == "boolean" else said


# ---- what it can do --------------------------------------------------------------------------


def _offer(plan: Plan, skills: Sequence[Skill], names: Names) -> str:
    able = [skill for skill in skills if skill.tool.available]
    if not able:
        start = "Hello!" if plan.is_greeting else "I would like to help, but"
        return f"{start} {'T' if plan.is_greeting else 't'}his page offers me no tools."
    start = "Hello! " if plan.is_greeting else "I did not understand that. "
    lines = [f"- {skill.title}: {example(skill, names)}" for skill in able[:SHOWN_TOOLS]]
    if len(able) > SHOWN_TOOLS:
        lines.append(f"- and {len(able) - SHOWN_TOOLS} more.")
    return f"{start}This is what I can do here, for example:\n" + "\n".join(lines)


def example(skill: Skill, names: Names) -> str:
    """Words that would make the agent call this tool."""
    args = _sample_args(skill, names)
    if any(param.kind == "other" for param in skill.params if param.name in args):
        return f"call {skill.name} {json.dumps(args, ensure_ascii=False)}"
    return phrase(skill, args)


def _sample_args(skill: Skill, names: Names) -> dict[str, Json]:
    needed = [param for param in skill.params if param.required]
    placed = [p for p in skill.params if p.choices and not p.required][:1] if needed else []
    chosen = [*needed, *placed] or list(skill.params)[: _at_least(skill)]
    return {param.name: _sample(skill, param, names) for param in chosen}


def _at_least(skill: Skill) -> int:
    """How many arguments there must be."""
    schema = skill.tool.parameters
    least = schema.get("minProperties") if isinstance(schema, Mapping) else 0
    asked = least if isinstance(least, int) and least > 0 else 0
    return max(asked, 1) if skill.verbs & {"set", "fill"} else asked


def _sample(skill: Skill, param: Param, names: Names) -> Json:
    if param.choices:
        return param.choices[-1]
    if param.kind == "other":
        return param.unsaid[0] if param.unsaid else {}
    if param.kind in ("integer", "number"):
        low = 2 if param.low is None else max(2, int(param.low))
        return low if param.high is None or low <= param.high else param.low
    if param.kind == "boolean":
        return True
    if param.kind == "list":
        return [_sample(skill, param.item, names)] if param.item else []
    if param.wants_email:
        return "ada@example.org"
    if "name" in param.words:
        return "Ada"
    there = next(iter(names.things.values()), None)
    return "tea" if skill.keeps_wording or there is None else there


# ---- after -----------------------------------------------------------------------------------


def report(
    results: Sequence[Any], skills: Mapping[str, Skill], args: Mapping[str, Mapping[str, Json]]
) -> str:
    """What came of the calls; `args` by call id."""
    failed = sum(not result.ok for result in results)
    if len(results) == 1:
        return _single(results[0], skills)
    lines = [f"- {_label(each, skills, args)} {_outcome(each)}" for each in results]
    if not failed:
        start = "Done."
    elif failed == len(results):
        start = "None of that worked."
    else:
        start = f"{len(results) - failed} of {len(results)} worked."
    return start + "\n" + "\n".join(lines)


def _single(result: Any, skills: Mapping[str, Skill]) -> str:
    if result.ok:
        value = readable(result.value)
        return f"Done{'.' if value[:1].isupper() else ':'} {_sentence(value)}" if value else "Done."
    return _sentence(f"{_title(result.name, skills)} {_failure(result)}")


def _label(result: Any, skills: Mapping[str, Skill], args: Mapping[str, Mapping[str, Json]]) -> str:
    skill = skills.get(result.name)
    title = _title(result.name, skills)
    given = args.get(result.call_id, {})
    main = next((given.get(p.name) for p in skill.texts if p.required), None) if skill else None
    told = f"{title} {_quote(main)}" if isinstance(main, str) else title
    return f"{told}:" if result.ok else told


def _title(name: str, skills: Mapping[str, Skill]) -> str:
    return skills[name].title if name in skills else name


def _outcome(result: Any) -> str:
    return _sentence(readable(result.value) or "done") if result.ok else _sentence(_failure(result))


def _failure(result: Any) -> str:
    code = result.error.code if result.error else result.outcome
    if code in _FAILURES:
        return _FAILURES[code]
    if result.outcome in _FAILURES:
        return _FAILURES[result.outcome]
    message = " ".join((result.error.message if result.error else "").split())
    return f"did not work: {_cut(message, RESULT_CHARS)}" if message else "did not work"


def _sentence(text: str) -> str:
    return text if text[-1:] in ".!?…:" else f"{text}."


def readable(value: Json) -> str:
    """A result in words; empty when it says no more than that it worked."""
    if isinstance(value, list) and value and all(_is_part(each) for each in value):
        value = " ".join(str(each.get("text", "")) for each in value)
    if value is None or value is True or value in ({}, [], "", {"ok": True}):
        return "" if value != [] else "nothing"
    return _cut(_words(value, _DEPTH), RESULT_CHARS)


def _is_part(value: Json) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "text" and "text" in value


def _words(value: Json, depth: int) -> str:
    if isinstance(value, str):
        return scrub(value).strip()
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return _pairs({key: each for key, each in value.items() if key != "ok"} or value, depth)
    if isinstance(value, list):
        return _listed((_nested(each, depth) for each in value), ", ") or "nothing"
    return str(value)


def _pairs(value: Mapping[str, Json], depth: int) -> str:
    """added milk, column To do; or, of lists, To do: milk, tea; Done: nothing."""
    is_plain = not any(isinstance(each, Mapping | list) for each in value.values())
    between, after = (", ", " ") if is_plain else ("; ", ": ")
    told = (f"{_key(key)}{after}{_nested(each, depth)}" for key, each in value.items())
    return _listed(told, between)


def _key(key: str) -> str:
    return key.replace("_", " ")


def _nested(value: Json, depth: int) -> str:
    if isinstance(value, Mapping | list) and value:
        return "…" if depth <= 0 else _words(value, depth - 1)
    return "nothing" if value in ({}, [], "") else _cut(_words(value, 0), 200)


def _listed(texts: Iterable[str], between: str) -> str:
    shown = list(texts)
    more = [f"{len(shown) - _ITEMS} more"] if len(shown) > _ITEMS else []
    return between.join([*shown[:_ITEMS], *more])
