"""A table of coefficients that prints itself, in the habit of regression summaries."""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skdp._checks import optional_module

if TYPE_CHECKING:
    from skdp.linear_model._inference.inference import Inference

_WIDTH = 78
_HIDDEN = (
    "{} of {} coefficients have an unbounded interval, as the noise hides them. Their standard"
    " errors are to first order in the noise, and not reliable. The noise hides {} most. A model"
    " without it, a larger epsilon, more records or narrower declared bounds would help."
)
_UNUSABLE = (
    "All intervals are unbounded: the noise leaves no unique solution of the equations. It hides {}"
    " most, and a model without this column may have intervals. If it is an indicator of missing"
    ' cells, declare a number or "middle" as its rule. A larger epsilon, more records or narrower'
    " declared bounds would help, too."
)
_VOID = "THE GUARANTEE DOES NOT HOLD: {}."
_GUARANTEE = (
    "Guarantee: differential privacy with epsilon = {0.epsilon:g} and delta = {0.delta:g}, by"
    " {0.mechanism}. guarantee_ of the model tells all of it."
)
# Browsers do not pass colours on to tables in pages without a doctype.
_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;color:inherit"
_CELL = "padding:0.15em 0.6em;text-align:right;border:none"
_NAME = "padding:0.15em 0.6em;text-align:left;border:none;font-weight:normal"
_RULE = "border:none;border-bottom:1px solid currentColor"
_FOOT = "max-width:46em;text-align:left;line-height:1.4;opacity:0.8;margin:0.2em 0"


@dataclass(frozen=True, eq=False, repr=False)
class CoefficientTable:
    """Coefficients with standard errors, tests and intervals; ``print`` and notebooks show it.

    The columns are the estimate (``coef``, not shrunk), its standard error (``std err``), the parts
    of it that the records (``sampling``) and the noise (``privacy``) cause, the test that the
    coefficient is 0 (``z`` and ``P>|z|``), and the ends of the interval. The square of the standard
    error is the sum of the squares of its parts. Everything in it was released or is public.

    Parameters
    ----------
    inference : Inference
    level : float in (0, 1), default=0.95
        Of the intervals.
    model : str, default=""
        Name of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp import Domain, DPLinearRegression
    >>> X = np.random.default_rng(0).uniform(0, 10, size=(20_000, 1))
    >>> domain = Domain({"hours": (0, 10)}, target=(0, 30))
    >>> model = DPLinearRegression(domain=domain, mechanism="matrix")
    >>> table = model.fit(X, 3 * X[:, 0]).summary()
    >>> table.to_dict()["names"]
    ['intercept', 'hours']
    """

    inference: Inference
    level: float = 0.95
    model: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the columns of the table as lists, and what is above and below them.

        Returns
        -------
        dict
            ``names``, ``coef``, ``std_error``, ``sampling_error``, ``privacy_error``, ``z``,
            ``p_value``, ``lower`` and ``upper`` are lists with an entry for each coefficient.
            ``level`` is a number, ``head`` a dict of str and ``notes`` a list of str. Errors and
            ends may be infinite.
        """
        own, ends = self.inference, self.inference.conf_int(level=self.level)
        return {
            "names": list(own.names),
            "coef": own.coef.tolist(),
            "std_error": own.std_error.tolist(),
            "sampling_error": own.sampling_error.tolist(),
            "privacy_error": own.privacy_error.tolist(),
            "z": own.z_values.tolist(),
            "p_value": own.p_values.tolist(),
            "lower": ends[:, 0].tolist(),
            "upper": ends[:, 1].tolist(),
            "level": self.level,
            "head": dict(self._head()),
            "notes": self._notes(ends),
        }

    def to_frame(self) -> Any:
        """Return the table as a ``pandas.DataFrame`` with the names as index; needs pandas."""
        pandas = optional_module("pandas", "for a DataFrame", "pandas")
        found = self.to_dict()
        names = found.pop("names")
        columns = {name: value for name, value in found.items() if isinstance(value, list)}
        columns.pop("notes")
        return pandas.DataFrame(columns, index=pandas.Index(names, name="coefficient"))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        found = self.to_dict()
        header, cells = self._cells(found)
        widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in (header, *cells)
        ]
        width = max(_WIDTH, len(lines[0]))
        notes = [line for note in found["notes"] for line in textwrap.wrap(note, width)]
        head = _in_two(list(found["head"].items()), width)
        double = "=" * width
        return "\n".join(
            [self._title().center(width).rstrip(), double, *head, double, lines[0], "-" * width,
             *lines[1:], double, *notes]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        """Return the table as HTML.

        All styles are inline and no colours are set: it has the colours of the page.
        """
        found = self.to_dict()
        header, cells = self._cells(found)
        head = "; ".join(f"{name}: {value}" for name, value in found["head"].items())
        top = "".join(f'<th style="{_CELL};{_RULE}">{html.escape(cell)}</th>' for cell in header)
        body = "".join(
            f'<tr style="background:none"><th style="{_NAME}">{html.escape(row[0])}</th>'
            + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row[1:])
            + "</tr>"
            for row in cells
        )
        foot = "".join(f'<p style="{_FOOT}">{html.escape(note)}</p>' for note in found["notes"])
        return (
            f'<div class="skdp-coefficients"><b>{html.escape(self._title())}</b>'
            f'<p style="{_FOOT}">{html.escape(head)}</p><div style="overflow-x:auto">'
            f'<table style="{_TABLE}">'
            f"<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>{foot}</div>"
        )

    def _title(self) -> str:
        return f"Coefficients of {self.model}" if self.model else "Coefficients"

    def _head(self) -> list[tuple[str, str]]:
        """Return what stands above the table."""
        n, own = self.inference.n_records, self.inference.guarantee
        counted = "No. persons" if own is not None and own.unit == "person" else "No. records"
        found = [(counted, "private" if n is None else str(n)), ("Level", f"{self.level:g}")]
        if own is not None:
            found += [("Epsilon", f"{own.epsilon:g}"), ("Delta", f"{own.delta:g}")]
            found += [("Neighbours", own.neighbors), ("Unit", own.unit)]
        return found

    def _notes(self, ends: Any) -> list[str]:
        """Return the sentences below the table."""
        own, least = self.inference.guarantee, self.inference.least_known
        n_hidden = int(np.isinf(ends).any(axis=1).sum())
        found = [_HIDDEN.format(n_hidden, len(ends), least)] if n_hidden else []
        if not self.inference.is_usable:
            found = [_UNUSABLE.format(least)]
        if own is not None:
            found += [_VOID.format(why) for why in own.void_because]
            found += [_GUARANTEE.format(own)]
        return [*found, *self.inference.notes]

    def _cells(self, found: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
        """Return the header and the cells of the lines, as text."""
        tail = (1 - self.level) / 2
        ends = f"[{tail:.4g}", f"{1 - tail:.4g}]"
        header = ["", "coef", "std err", "sampling", "privacy", "z", "P>|z|", *ends]
        numbers = ["coef", "std_error", "sampling_error", "privacy_error", "lower", "upper"]
        columns = {name: list(map(digits, found[name])) for name in numbers}
        columns |= {name: [f"{value:.3f}" for value in found[name]] for name in ("z", "p_value")}
        shown: list[Sequence[str]] = [list(map(_on_one_line, found["names"]))]
        shown += [columns[name] for name in (*numbers[:4], "z", "p_value", *numbers[4:])]
        return header, [list(row) for row in zip(*shown, strict=True)]


def digits(value: float) -> str:
    """Return a number with four significant digits."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return f"{value:#.4g}".rstrip(".")


def _on_one_line(name: str) -> str:
    return name if name.isprintable() else repr(name)[1:-1]


def _in_two(pairs: list[tuple[str, str]], width: int) -> list[str]:
    """Return lines with two entries each, which are read from the left to the right."""
    half = width // 2 - 2
    cells = [f"{name}:{value.rjust(half - len(name) - 1)}" for name, value in pairs]
    cells += [""] * (len(cells) % 2)
    return [f"{a}    {b}".rstrip() for a, b in zip(cells[::2], cells[1::2], strict=True)]
