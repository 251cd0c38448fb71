"""One HTML page about a fitted model or an inference, for readers who decide on its publication.

The page has no scripts and loads nothing, so that it can be archived and printed.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.domain import Domain
from skdp.inspection.shapes import Shape, shapes_of
from skdp.linear_model.proof import Proof
from skdp.trusted.certify import Line

# What a release is, in words, by its name.
WORDS = {
    "scaling": "Sums of the columns and of their squares, from which centres and scales follow.",
    "objective": "The coefficients: they minimise the loss of all records plus a random term.",
    "cross": "Sums of products of the target with each column.",
    "moments": "Sums of products of the columns with each other.",
    "gradients": "The steps of the fit: sums that say how coefficients should change.",
    "choices": "Which coefficient is changed in each step.",
    "scales": "Sums of the columns and of the residuals, and of their squares.",
    "limits": "How many values are at the declared bounds.",
    "scores": "Sums from which the errors of the coefficients are estimated.",
    "curvatures": "Sums of products of columns, for the standard errors.",
    "squares": "Sums of squared influences of records, for the standard errors.",
}
_STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --band: #4477aa33; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 58rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem } h2 { font-size: 1.2rem; margin-top: 2.2rem }
table { border-collapse: collapse; width: 100%; font-size: .92rem }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0;
  border-bottom: 1px solid var(--line) }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.small { font-size: .85rem; opacity: .8 } code, pre { background: var(--soft); border-radius: 3px }
code { padding: .1em .3em; overflow-wrap: anywhere } pre { padding: .7rem; overflow-x: auto }
figure { display: inline-block; margin: 0 1rem 1rem 0 } figcaption { font-size: .9rem }
.scroll { overflow-x: auto } .skdp-guarantee { max-width: none !important }
svg text { font: 11px system-ui, sans-serif; fill: currentColor }
"""
_VERDICT = {
    True: "Every release was checked again by its theorem when this page was made, and the"
    " guarantee follows from them.",
    False: "THE GUARANTEE DOES NOT HOLD for this model: see the reason below.",
}
# The size of a picture, and its margins: left, right, top, bottom.
_SIZE, _MARGINS = (300, 190), (48, 8, 8, 24)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, by which two copies can be compared."""
    return sha256(path.read_bytes()).hexdigest()


def report(model: Any, proof: Proof, path: Path) -> str:
    """Return the page.

    Parameters
    ----------
    model : estimator or Inference
        That of the file.
    proof : Proof
        What `check_proof` returned for it.
    path : Path
        The model's file.
    """
    name, hashed = html.escape(path.name), digest(path)
    verify = (
        f"pip install skdp\npython -m skdp certify {quote(path.name)}\nsha256sum {quote(path.name)}"
    )
    extra = [own for own in proof.assumptions if own not in proof.guarantee.assumptions]
    is_model = hasattr(model, "coef_")
    domain = model._records.domain if is_model else model.records
    what = f"{type(model).__name__}: report on a private model"
    if not is_model:
        what = f"{model.model}: report on a private regression table"
    beside = "Nothing else of the records was used."
    if (fit := getattr(model, "fit", None)) is not None and not is_model:
        beside = (
            f"The table also depends on the model, whose fit has a guarantee of its own, epsilon ="
            f" {fit.epsilon:g} and delta = {fit.delta:g}: it adds to this one, and is not proved by"
            " this file. Nothing else of the records was used."
        )
    parts = [
        f"<h1>{html.escape(what)}</h1>",
        f'<p class="small">File <code>{name}</code>, SHA-256 <code>{hashed}</code></p>',
        f"<p><strong>{_VERDICT[proof.guarantee.holds]}</strong></p>",
        "<h2>The guarantee</h2>",
        proof.guarantee.to_html(),
        "<h2>What was released</h2>",
        f"<p>{beside} A part of epsilon is a bound on what one release tells about one record; the"
        " parts add up."
        " Where there is a delta, some releases are composed together and have no part.</p>",
        _releases(proof.lines),
        "<h2>What was declared, and not learned from the records</h2>",
        _table(("column", "declared"), _declared(domain)),
        f"<h2>The {'model' if is_model else 'table'}</h2>",
        *(_model(model) if is_model else [model.summary()._repr_html_()]),
        "<h2>What has to be trusted</h2>",
        "<p>No computation can check these statements:</p>",
        _list([*proof.guarantee.assumptions, *extra]),
        "<h2>How to verify</h2>",
        "<p>This needs the file and no access to the records. The second command proves"
        " every release again and fails if the noise is too small. The third one shows whether the"
        " file is the one above.</p>",
        f"<pre>{html.escape(verify)}</pre>",
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: {html.escape(what)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        "<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table of escaped text; the columns ``numbers`` are aligned to the right."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = (' class="n"' if k in numbers else "" for k in range(len(cells)))
        return "".join(
            f"<{tag}{kind}>{html.escape(cell)}</{tag}>"
            for kind, cell in zip(kinds, cells, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{line("th", head)}</tr>{body}</table></div>'


def _list(sentences: Iterable[str]) -> str:
    items = (f"<li>{html.escape(own[:1].upper() + own[1:])}</li>" for own in sentences)
    return f"<ul>{''.join(items)}</ul>"


def _releases(lines: Sequence[Line]) -> str:
    head = "release", "times", "deviation of the noise", "epsilon"
    rows = []
    for own in lines:
        words = html.escape(WORDS.get(own.name, ""))
        below = html.escape(f"{own.law}; proof: {own.theorem}")
        epsilon = "composed" if own.epsilon is None else f"{own.epsilon:.4g}"
        numbers = (html.escape(x) for x in (str(own.times), f"{own.deviation:.4g}", epsilon))
        cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
        first = f"<strong>{html.escape(own.name)}</strong>. {words}"
        rows.append(f'<tr><td>{first}<br><span class="small">{below}</span></td>{cells}</tr>')
    kinds = ("", *[' class="n"'] * 3)
    heads = "".join(f"<th{kind}>{word}</th>" for kind, word in zip(kinds, head, strict=True))
    return f'<div class="scroll"><table><tr>{heads}</tr>{"".join(rows)}</table></div>'


def _declared(domain: Domain) -> Iterator[tuple[str, str]]:
    """Yield the columns of the domain with their bounds or levels, and the target."""
    if domain.is_ball:
        yield "all columns", f"length of a row at most {domain.radius:g}"
    else:
        for column, read, _ in domain._layout.placed:
            yield " x ".join(domain._labels[read]), _words(column)
    target = domain.target
    if target is not None:
        yield (
            "target",
            _numbers(domain.target_bounds) if domain.target_bounds else ", ".join(map(str, target)),
        )


def _words(column: Any) -> str:
    if hasattr(column, "levels"):
        return "levels " + ", ".join(map(str, column.levels))
    if hasattr(column, "lower"):
        return _numbers((column.lower, column.upper))
    return repr(column)


def _numbers(ends: Sequence[float]) -> str:
    low, high = ends
    return f"{low:g} to {high:g}"


def _model(model: BaseEstimator) -> Iterator[str]:
    """Yield a table of coefficients, or the curves."""
    if _has_curves(model):
        yield (
            "<p>Effects of the columns on the prediction, less their means over the declared"
            " ranges.</p>"
        )
        yield from _curves(model)
    else:
        yield _coefficients(model)
    if (bounds := getattr(model, "bounds_", None)) is not None and len(bounds):
        yield (
            '<p class="small">Numbers beyond the estimated bounds, which the model\'s file lists,'
            " are moved to the bounds before a prediction is made.</p>"
        )


def _has_curves(model: BaseEstimator) -> bool:
    """Return whether a column has a curve."""
    return any(table is not None for table in model._design.domain.block_tables)


def _coefficients(model: BaseEstimator) -> str:
    """Return the table of coefficients in the user's units, with a column for each model."""
    coef = np.atleast_2d(model.coef_)
    intercept = np.atleast_1d(model.intercept_)
    labels = [str(label) for label in getattr(model, "classes_", ())]
    head = (
        labels if len(coef) > 1 else ["coefficient" if not labels else f"log-odds of {labels[1]}"]
    )
    names = ["intercept", *model._design.domain.encoded_names()]
    values = np.column_stack([intercept, coef]).T
    rows = [(name, *(f"{x:.5g}" for x in own)) for name, own in zip(names, values, strict=True)]
    return _table(("column", *head), rows, numbers=range(1, 1 + len(head)))


def _curves(model: BaseEstimator) -> Iterator[str]:
    """Yield a figure for each curve and a table for each column of levels."""
    shapes, unit = shapes_of(model)
    shown = [own for own in shapes if not own.is_surface]
    ends = [own.effects for own in shown] + [
        own.interval[np.isfinite(own.interval)] for own in shown if own.interval is not None
    ]
    every = np.concatenate([np.ravel(own) for own in ends])
    low, high = float(every.min()), float(every.max())
    if not high > low:
        low, high = low - 1.0, high + 1.0
    yield f'<p class="small">Vertical axis: {html.escape(unit)}.</p>'
    for shape in shown:
        label = "" if shape.label is None else f" ({shape.label})"
        caption = html.escape(f"{shape.name}{label}")
        picture = _curve(shape, low, high) if shape.is_curve else _levels(shape)
        yield f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"


def _levels(shape: Shape) -> str:
    pairs = zip(shape.values, shape.effects, strict=True)
    return _table(("level", "effect"), [(str(v), f"{e:.4g}") for v, e in pairs], numbers=(1,))


def _curve(shape: Shape, low: float, high: float) -> str:
    """Return a line with its band as SVG; effects from ``low`` to ``high`` fill the height."""
    values, effects = np.asarray(shape.values, float), np.asarray(shape.effects, float)
    is_number = np.isfinite(values)
    values, effects = values[is_number], effects[is_number]
    left, right, top, bottom = _MARGINS
    width, height = _SIZE[0] - left - right, _SIZE[1] - top - bottom

    def x(value: Any) -> Any:
        return left + width * (value - values[0]) / max(values[-1] - values[0], 1e-300)

    def y(effect: Any) -> Any:
        return top + height * (high - np.clip(effect, low, high)) / (high - low)

    def path(xs: Iterable[float], ys: Iterable[float]) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(xs, ys, strict=True))

    marks = []
    if shape.interval is not None:
        ends = np.asarray(shape.interval)[is_number]
        around = np.concatenate([values, values[::-1]]), np.concatenate([ends[:, 0], ends[::-1, 1]])
        points = path(x(around[0]), y(around[1]))
        marks.append(f'<polygon points="{points}" fill="var(--band)"/>')
    if low < 0 < high:
        marks.append(
            f'<path d="M{left} {y(0.0):.1f}h{width}" stroke="currentColor" stroke-opacity=".4"'
            ' stroke-dasharray="3 3"/>'
        )
    line = path(x(values), y(effects))
    marks.append(f'<polyline points="{line}" fill="none" stroke="#4477aa" stroke-width="2"/>')
    marks.append(
        f'<path d="M{left} {top}v{height}h{width}" fill="none" stroke="currentColor"'
        ' stroke-opacity=".5"/>'
    )
    for value, at in ((high, top + 8), (low, top + height)):
        marks.append(f'<text x="{left - 4}" y="{at}" text-anchor="end">{value:.3g}</text>')
    for value, anchor in ((values[0], "start"), (values[-1], "end")):
        place = f'x="{x(value):.1f}" y="{_SIZE[1] - 8}" text-anchor="{anchor}"'
        marks.append(f"<text {place}>{value:g}</text>")
    name = html.escape(f"effect of {shape.name}", quote=True)
    size = f'width="{_SIZE[0]}" height="{_SIZE[1]}" viewBox="0 0 {_SIZE[0]} {_SIZE[1]}"'
    return f'<svg {size} role="img" aria-label="{name}">{"".join(marks)}</svg>'
