"""How the documentation is built: `make docs`, or sphinx-build on this folder."""

import importlib.metadata
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

project = "skdp"
author = "The skdp developers"
copyright = author
try:
    release = importlib.metadata.version("skdp")
except importlib.metadata.PackageNotFoundError:  # read from the folder, not installed
    release = ""

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_parser",
    "_mathml",
]
exclude_patterns = ["_build"]

# A reference to what there is not is an error, also in docstrings.
nitpicky = True
nitpick_ignore = [
    ("py:class", "ComparedBall"),  # the rows of a Comparison; not made by hand
]

# Markdown

myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True  # two dollars also where a paragraph goes on
myst_heading_anchors = 3

# Docstrings. One page per module: methods stand below their class.

numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_default_options = {
    "members": True,
    "member-order": "bysource",
    # What the package's own parents do is shown; scikit-learn and Python describe theirs.
    "inherited-members": "BaseEstimator,_MetadataRequester,ClassifierMixin,RegressorMixin,"
    "TransformerMixin,_SetOutputMixin,MetaEstimatorMixin,Mapping,tuple,ValueError",
    "exclude-members": "set_fit_request,set_predict_request,set_score_request,"
    "set_transform_request,set_output,get_metadata_routing",
}
autodoc_typehints = "none"  # types stand in the text, with shapes, ranges and units
autodoc_preserve_defaults = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# Pages

html_theme = "furo"
html_title = "skdp"
html_favicon = "icon.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"  # and nothing else is loaded from elsewhere either
html_copy_source = False
html_show_sourcelink = False

# What is code already, and what reStructuredText would take for a reference in plain words:
# the bars of a norm, and the last underscore of an attribute.
LITERAL = re.compile(r"(``.*?``|`[^`]*`_?)")
PAGE = re.compile(r"``docs/(\S+?)\.md``")
PLAIN = re.compile(r"\||(?<=\w)_(?!\w)")


def as_plain_words(app, what, name, obj, options, lines):
    """Keep |x| and shape_ as they are written, and lead from a proof's name to the proof."""
    code = False
    for k, written in enumerate(lines):
        line = PAGE.sub(r":doc:`/\1`", written)
        code = bool(line.strip()) and (code or line.lstrip().startswith(">>>"))
        if not code:
            parts = LITERAL.split(line)
            parts[::2] = [PLAIN.sub(r"\\\g<0>", words) for words in parts[::2]]
            lines[k] = "".join(parts)


def setup(app):
    """Attach what is ours."""
    app.connect("autodoc-process-docstring", as_plain_words, priority=900)  # after numpydoc
