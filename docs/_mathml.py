r"""Formulas as MathML: browsers draw it themselves, without a script from elsewhere.

Docutils translates. What it lacks is first written in commands that it has.
"""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

REWRITES = (
    (r"\\dots(?![a-zA-Z])", r"\\ldots "),
    (r"\\iff(?![a-zA-Z])", r"\\Longleftrightarrow "),
    (r"\\textstyle(?![a-zA-Z])", ""),
    (r"\\(big|Big|bigg|Bigg)(?![a-zA-Z])", r"\\\1l "),
    (r"\\([td]?frac)\s*(\d)(\d)", r"\\\1{\2}{\3}"),  # a number of two digits, to docutils
    (r"\\tag\{(.*?)\}", r"\\qquad (\1)"),
    (r"^(?=[_^])", "{}"),  # an index on the word before
)
# Browsers take the second bar of |x| for a relation, and set it apart; primes are no apostrophes.
SIGNS = ((r"<mo[^>]*>\|</mo>", "|"), (r"<mo[^>]*>'</mo>", "′"))


def mathml(source: str, *, display: bool) -> str:
    """Return a formula as MathML."""
    for pattern, written in REWRITES:
        source = re.sub(pattern, written, source)
    found = str(tex2mathml(source, as_block=display))
    for pattern, sign in SIGNS:
        found = re.sub(pattern, f'<mo stretchy="false" lspace="0" rspace="0">{sign}</mo>', found)
    return found


def _translated(self: HTML5Translator, node: nodes.Element, *, display: bool) -> str:
    try:
        return mathml(node.astext(), display=display)
    except (MathError, IndexError) as error:
        logger.warning("formula not understood: %s (%s)", node.astext(), error, location=node)
        return f"<code>{self.encode(node.astext())}</code>"


def inline(self: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula in the text."""
    self.body.append(_translated(self, node, display=False))
    raise nodes.SkipNode


def displayed(self: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula on a line of its own."""
    self.body.append(f'<div class="math">{_translated(self, node, display=True)}</div>')
    raise nodes.SkipNode


# Where a dollar is a dollar: in code, in signatures, and in what a notebook's cell displays.
CODE = nodes.literal | nodes.literal_block | nodes.inline | nodes.raw


def find_broken(app: Sphinx, doctree: nodes.document) -> None:
    """Warn of a dollar that is left: the other one is in another paragraph or list item."""
    for text in doctree.findall(nodes.Text):
        if "$" in text and not isinstance(text.parent, CODE):
            logger.warning("formula is broken off: %r", text[-60:], location=text.parent)


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer ``mathml``, and look for formulas that did not get to it."""
    app.connect("doctree-read", find_broken)
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
