"""The readable card that a guarantee prints as."""

from __future__ import annotations

import decimal
import html
import math
import textwrap
from collections.abc import Iterable
from typing import Any

from skdp.privacy.rounding import at_least_tiny

NEIGHBORS = {
    "replace_one": "any one record replaced by any other; the number of records is public",
    "add_remove": "any one record added or removed; the number of records is private",
}
_PERSONS = {
    "replace_one": "all rows of any one person replaced by any others; the number of persons is"
    " public, the number of rows is private",
    "add_remove": "all rows of any one person added or removed; the numbers of persons and of rows"
    " are private",
}
UNITS = {"row": "record", "person": "person"}
_ODDS = {
    "replace_one": "between any two values of {}",
    "add_remove": "on {} being in the data",
}
_TITLE = "Differential privacy guarantee"
_VOID = "VOID"
_WIDTH, _INDENT = 78, 12
_DELTAS = (1e-3, 1e-6, 1e-9)
_EDGE, _EDGE_VOID = "#2f7d4f", "#c62828"
_FRAME = (
    "border-radius:4px;max-width:46em;margin:0.5em 0;padding:0.6em 1em;display:grid;"
    "grid-template-columns:6.5em 1fr;gap:0.15em 0.8em;text-align:left;line-height:1.4"
)
_WHOLE = "grid-column:1 / -1;font-weight:bold;margin-bottom:0.2em"
_HEAD, _BODY, _BOLD = "opacity:0.75", "margin:0", "font-weight:bold"


def card(guarantee: Any) -> str:
    """Return the guarantee in words, at most 78 columns wide."""
    return "\n".join([_TITLE, "-" * len(_TITLE), *_table(_rows(guarantee))])


def card_html(guarantee: Any) -> str:
    """Return the same words as HTML.

    All styles are inline: a style sheet would also change other content of the page, such as a
    diagram of a pipeline. Text has the colour of the page, so it is readable on dark pages.
    """
    lines, last = [], ""
    for label, text in _rows(guarantee):
        body = _BOLD if label == _VOID else _BODY
        lines += [_html_cell(_HEAD, "" if label == last else label), _html_cell(body, text)]
        last = label
    edge = _EDGE if guarantee.holds else _EDGE_VOID
    style = f"border:1px solid {edge};border-left:5px solid {edge};{_FRAME}"
    title = f'<div style="{_WHOLE}">{_TITLE}</div>'
    return f'<div class="skdp-guarantee" style="{style}">{title}{"".join(lines)}</div>'


def _rows(guarantee: Any) -> list[tuple[str, str]]:
    """Return labels and sentences; a label may come several times."""
    is_row = guarantee.unit == "row"
    void = [(_VOID, f"THIS GUARANTEE DOES NOT HOLD: {why}") for why in guarantee.void_because]
    return [
        *void,
        ("epsilon", repr(guarantee.epsilon)),
        ("delta", repr(guarantee.delta)),
        *(("profile", sentence) for sentence in _profile(guarantee) if guarantee.holds),
        ("neighbours", (NEIGHBORS if is_row else _PERSONS)[guarantee.neighbors]),
        ("mechanism", guarantee.mechanism or "not stated"),
        *(("assumes", f"- {sentence}") for sentence in guarantee.assumptions),
        *(("means", sentence) for sentence in _meaning(guarantee) if guarantee.holds),
        *(("also", sentence) for sentence in _equivalents(guarantee) if guarantee.holds),
    ]


def _profile(guarantee: Any) -> Iterable[str]:
    """Yield a sentence with epsilon at other deltas, if the losses are known."""
    if guarantee.losses:
        found = ((guarantee.epsilon_at(delta), delta) for delta in _DELTAS)
        known = [f"{_near(epsilon)} at {delta:g}" for epsilon, delta in found if epsilon < math.inf]
        if known:
            yield f"epsilon {', '.join(known)}"


def _meaning(guarantee: Any) -> tuple[str, str]:
    """Return the meaning of the numbers, which is exact for the dominating pair."""
    factor = _odds_factor(guarantee.epsilon)
    record, is_row = UNITS[guarantee.unit], guarantee.unit == "row"
    one = "this record" if is_row else "the rows of this person"
    odds = f"the odds {_ODDS[guarantee.neighbors].format(one)} by a factor of at most {factor}"
    claim = (
        f"the release changes {odds}"
        if guarantee.delta == 0
        else f"the release tells no more than one that reveals {one} with "
        f"probability delta and otherwise changes {odds}"
    )
    errors = _digits(1 - guarantee.delta_at(0.0), decimal.ROUND_FLOOR)
    return (
        f"To somebody who knows every other {record}, {claim}.",
        "Any test between the two cases has rates of false alarms and of misses that "
        f"add up to at least {errors}; blind guessing gives 1.",
    )


def _equivalents(guarantee: Any) -> Iterable[str]:
    mu, rho = guarantee.mu, guarantee.rho
    if mu < math.inf:
        shown = _near(mu)
        yield (
            f"Gaussian DP with mu = {shown}: no easier to tell than two normal laws of "
            f"variance 1 whose means differ by {shown}."
        )
    if rho < math.inf:
        yield f"Zero-concentrated DP (zCDP) with rho = {_near(rho)}."


def _odds_factor(epsilon: float) -> str:
    if epsilon > 700:  # e^709.8 is the greatest float
        return "e^epsilon"
    return f"e^epsilon = {_up(at_least_tiny(math.exp(epsilon), epsilon))}"


def _up(value: float) -> str:
    return _digits(value, decimal.ROUND_CEILING)


def _near(value: float) -> str:
    # The value was already rounded up by 1e-12; this avoids a second rise by a hundredth.
    return _up(value * (1 - 1e-11))


def _digits(value: float, rounding: str) -> str:
    context = decimal.Context(prec=3, rounding=rounding)
    return f"{float(context.create_decimal_from_float(value)):g}"


def _html_cell(style: str, text: str) -> str:
    return f'<div style="{style}">{html.escape(text)}</div>'


def _table(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Wrap each text beside its label; a label that repeats is written once."""
    lines, last = [], ""
    for label, text in rows:
        head = "" if label == last else label
        bullet = 2 if text.startswith("- ") else 0
        lines += textwrap.wrap(
            text,
            _WIDTH,
            initial_indent=head.ljust(_INDENT),
            subsequent_indent=" " * (_INDENT + bullet),
        )
        last = label
    return lines
