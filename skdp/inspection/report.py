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
from skdp.domain.columns import Levels, Number
from skdp.domain.splines import Spline
from skdp.inspection.models import scale_of
from skdp.inspection.shapes import Shape, shapes_of
from skdp.linear_model.proof import Proof
from skdp.trusted.certify import Line

# What a release is, in words, by its name.
WORDS = {
    "scaling": "Sums of the columns and of their squares, from which centres and scales follow.",
    "objective": "The coefficients: they minimise the loss of all records plus a random term.",
    "mean": "The sum of the residuals and of their squares, which corrects the intercept.",
    "cross": "Sums of products of the residuals of a first model with each column.",
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
:root { color-scheme: light dark; --line: #8886; --soft: #8882; }
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
    file = quote(path.name)
    verify = f"pip install skdp\npython -m skdp certify {file}\nsha256sum {file}"
    guarantee, beside = proof.guarantee, "Nothing else of the records was used."
    if hasattr(model, "coef_"):
        domain, shown = model._records.domain, "".join(_model(model))
        what, kind = f"{type(model).__name__}: report on a private model", "model"
    else:
        domain, shown = model.records, model.summary()._repr_html_()
        what, kind = f"{model.model}: report on a private regression table", "table"
        if model.fit is not None:
            beside = (
                "The table also depends on the model, whose fit has a guarantee of its own,"
                f" epsilon = {model.fit.epsilon:g} and delta = {model.fit.delta:g}: it adds to this"
                f" one, and is not proved by this file. {beside}"
            )
    verdict = "THE GUARANTEE DOES NOT HOLD for this model: see the reason below."
    if guarantee.holds:
        verdict = (
            "Every release was checked again by its theorem when this page was made, and the"
            " guarantee follows from them."
        )
    sentences = dict.fromkeys([*guarantee.assumptions, *proof.assumptions])
    items = (f"<li>{html.escape(one[:1].upper() + one[1:])}</li>" for one in sentences)
    parts = [
        f"<h1>{html.escape(what)}</h1>",
        f'<p class="small">File <code>{name}</code>, SHA-256 <code>{hashed}</code></p>',
        f"<p><strong>{verdict}</strong></p>",
        "<h2>The guarantee</h2>",
        guarantee.to_html(),
        "<h2>What was released</h2>",
        f"<p>{beside} A part of epsilon is a bound on what one release tells about one record; the"
        " parts add up."
        " Where there is a delta, some releases are composed together and have no part.</p>",
        _releases(proof.lines),
        "<h2>What was declared, and not learned from the records</h2>",
        _table(("column", "declared"), _declared(domain)),
        f"<h2>The {kind}</h2>",
        shown,
        "<h2>What has to be trusted</h2>",
        "<p>No computation can check these statements:</p>",
        f"<ul>{''.join(items)}</ul>",
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
    """Return a table of text; the columns ``numbers`` are aligned to the right."""
    return _table_of_html(head, (map(html.escape, row) for row in rows), numbers)


def _table_of_html(
    head: Sequence[str], rows: Iterable[Iterable[str]], numbers: Sequence[int]
) -> str:
    def line(tag: str, cells: Iterable[str]) -> str:
        kinds = (' class="n"' if k in numbers else "" for k in range(len(head)))
        return "".join(f"<{tag}{k}>{cell}</{tag}>" for k, cell in zip(kinds, cells, strict=True))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    heads = line("th", map(html.escape, head))
    return f'<div class="scroll"><table><tr>{heads}</tr>{body}</table></div>'


def _releases(lines: Sequence[Line]) -> str:
    rows = []
    for line in lines:
        name, words = html.escape(line.name), html.escape(WORDS.get(line.name, ""))
        below = html.escape(f"{line.law}; proof: {line.theorem}")
        first = f'<strong>{name}</strong>. {words}<br><span class="small">{below}</span>'
        epsilon = "composed" if line.epsilon is None else f"{line.epsilon:.4g}"
        rows.append((first, str(line.times), f"{line.deviation:.4g}", epsilon))
    head = "release", "times", "deviation of the noise", "epsilon"
    return _table_of_html(head, rows, (1, 2, 3))


def _declared(domain: Domain) -> Iterator[tuple[str, str]]:
    if domain.is_ball:
        yield "all columns", f"length of a row at most {domain.radius:g}"
    else:
        for column, read, _ in domain._layout.placed:
            words = repr(column)
            if isinstance(column, Levels):
                words = "levels " + ", ".join(map(str, column.levels))
            elif isinstance(column, Number | Spline):
                words = f"{column.lower:g} to {column.upper:g}"
            yield " x ".join(domain._labels[read]), words
    if domain.target_bounds:
        yield "target", "{:g} to {:g}".format(*domain.target_bounds)
    elif domain.target is not None:
        yield "target", ", ".join(map(str, domain.target))


def _model(model: BaseEstimator) -> Iterator[str]:
    """Yield a table of coefficients, or the curves if a column has one."""
    if any(table is not None for table in model._design.domain.block_tables):
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


def _coefficients(model: BaseEstimator) -> str:
    coef = np.atleast_2d(model.coef_)
    head = [str(label) for label in getattr(model, "classes_", ())]
    if len(coef) == 1:
        head = [f"log-odds of {head[1]}" if head else scale_of(model)]
    names = ["intercept", *model._design.domain.encoded_names()]
    values = np.column_stack([np.atleast_1d(model.intercept_), coef]).T
    rows = [(name, *(f"{x:.5g}" for x in row)) for name, row in zip(names, values, strict=True)]
    return _table(("column", *head), rows, numbers=range(1, 1 + len(head)))


def _curves(model: BaseEstimator) -> Iterator[str]:
    """Yield a figure for each curve and a table for each column of levels."""
    shapes, unit = shapes_of(model)
    shown = [shape for shape in shapes if not shape.is_surface]
    effects = np.concatenate([shape.effects for shape in shown])
    low, high = float(effects.min()), float(effects.max())
    if not high > low:
        low, high = low - 1.0, high + 1.0
    yield f'<p class="small">Vertical axis: {html.escape(unit)}.</p>'
    for shape in shown:
        label = "" if shape.label is None else f" ({shape.label})"
        caption = html.escape(f"{shape.name}{label}")
        if shape.is_curve:
            picture = _curve(shape, low, high)
        else:
            pairs = zip(shape.values, shape.effects, strict=True)
            rows = [(str(level), f"{effect:.4g}") for level, effect in pairs]
            picture = _table(("level", "effect"), rows, numbers=(1,))
        yield f"<figure><figcaption>{caption}</figcaption>{picture}</figure>"


def _curve(shape: Shape, low: float, high: float) -> str:
    """Return a line as SVG; effects from ``low`` to ``high`` fill the height."""
    values, effects = np.asarray(shape.values, float), np.asarray(shape.effects, float)
    is_number = np.isfinite(values)
    values, effects = values[is_number], effects[is_number]
    left, right, top, bottom = _MARGINS
    width, height = _SIZE[0] - left - right, _SIZE[1] - top - bottom
    xs = left + width * (values - values[0]) / max(values[-1] - values[0], 1e-300)
    *ys, y_of_zero = top + height * (high - np.clip([*effects, 0.0], low, high)) / (high - low)
    marks = []
    if low < 0 < high:
        marks.append(
            f'<path d="M{left} {y_of_zero:.1f}h{width}" stroke="currentColor" stroke-opacity=".4"'
            ' stroke-dasharray="3 3"/>'
        )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(xs, ys, strict=True))
    marks.append(f'<polyline points="{line}" fill="none" stroke="#4477aa" stroke-width="2"/>')
    marks.append(
        f'<path d="M{left} {top}v{height}h{width}" fill="none" stroke="currentColor"'
        ' stroke-opacity=".5"/>'
    )
    for value, at in ((high, top + 8), (low, top + height)):
        marks.append(f'<text x="{left - 4}" y="{at}" text-anchor="end">{value:.3g}</text>')
    for k, anchor in ((0, "start"), (-1, "end")):
        place = f'x="{xs[k]:.1f}" y="{_SIZE[1] - 8}" text-anchor="{anchor}"'
        marks.append(f"<text {place}>{values[k]:g}</text>")
    name = html.escape(f"effect of {shape.name}", quote=True)
    size = f'width="{_SIZE[0]}" height="{_SIZE[1]}" viewBox="0 0 {_SIZE[0]} {_SIZE[1]}"'
    return f'<svg {size} role="img" aria-label="{name}">{"".join(marks)}</svg>'
