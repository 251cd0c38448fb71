"""How the documentation is built: `make docs`, or sphinx-build on this folder."""

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path

from numpydoc.xref import DEFAULT_LINKS

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from _versions import context, notes  # noqa: E402

project = "skdp"
author = "The skdp developers"
copyright = author
# Read from the folder that is built: another version may be installed.
facts = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
version = release = facts["version"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",  # reads Markdown and notebooks
    "sphinx_copybutton",
    "sphinxext.opengraph",
    "_mathml",
    "_gallery",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

# A reference to what there is not is an error, also in docstrings.
nitpicky = True
nitpick_ignore = [
    ("py:class", "ComparedBall"),  # the rows of a Comparison; not made by hand
]

# Names of other packages

# The build reads nothing from the network. `_inventories` has an inventory for each package, in
# Sphinx's first format, which is plain text: a line has a name, its kind, and the page under the
# address below. Only names that we refer to are there. A reference to another name is an error,
# whose remedy is a line more. What these lines cannot tell is whether a page has moved.
ELSEWHERE = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "scipy": "https://docs.scipy.org/doc/scipy",
    "sklearn": "https://scikit-learn.org/stable",
    "pandas": "https://pandas.pydata.org/docs",
    "matplotlib": "https://matplotlib.org/stable",
    "cvxpy": "https://www.cvxpy.org",
}
intersphinx_mapping = {
    name: (address, str(HERE / "_inventories" / f"{name}.inv"))
    for name, address in ELSEWHERE.items()
}

# Markdown and notebooks

myst_enable_extensions = ["dollarmath"]
myst_dmath_double_inline = True  # two dollars also where a paragraph goes on
myst_heading_anchors = 3
nb_execution_mode = "off"  # the results are stored in the notebooks
nb_merge_streams = True
# The only cells that are hidden have imports and the arguments of the script.
nb_code_prompt_show = "Show imports and settings"
nb_code_prompt_hide = "Hide imports and settings"

# Docstrings. One page per module: methods stand below their class.

numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
# Types of parameters lead to their classes: ours by the names that are exported, and those below.
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
ROOMS = sorted(path.parent.name for path in HERE.parent.glob("skdp/[a-z]*/__init__.py"))
CLASSES = {
    name: f"skdp.{room}.{name}"
    for room in ROOMS
    for name in import_module(f"skdp.{room}").__all__
    if name[0].isupper()
}
numpydoc_xref_aliases = (
    {word: word for word in DEFAULT_LINKS}  # "float" on every line needs no link
    | CLASSES
    | {
        name.rpartition(".")[2]: f":obj:`~{name}`"
        for name in (
            "fractions.Fraction",
            "matplotlib.axes.Axes",
            "matplotlib.figure.Figure",
            "matplotlib.lines.Line2D",
            "numpy.ndarray",
            "numpy.random.Generator",
            "numpy.random.RandomState",
            "pandas.DataFrame",
            "sklearn.pipeline.Pipeline",
        )
    }
    | {
        "cvxpy.Variable": "cvxpy.expressions.variable.Variable",
        "numpy.random.Generator": ":obj:`numpy.random.Generator`",
        "numpy.random.RandomState": ":obj:`numpy.random.RandomState`",
    }
)
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
html_context = context()
html_title = "skdp dev" if html_context["shown"] == "dev" else f"skdp {release}"
html_theme_options = notes()
html_sidebars = {
    "**": [
        *(f"sidebar/{part}.html" for part in ("brand", "search", "scroll-start", "navigation")),
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
html_favicon = "_static/icon.svg"
html_logo = "_static/icon.svg"
html_baseurl = "https://skdp.readthedocs.io/en/stable/"  # every page names its address there
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_math_renderer = "mathml"  # and nothing else is loaded from elsewhere either
html_copy_source = False
html_show_sourcelink = False

# Prompts and results are not copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# What a link to a page looks like where it is shared. One picture is enough: see `_card.py`.
ogp_site_url = html_baseurl
ogp_image = f"{html_baseurl}_static/card.png"
ogp_image_alt = facts["description"]
ogp_social_cards = {"enable": False}

# What is code already, and what reStructuredText would take for a reference in plain words:
# the bars of a norm, and the last underscore of an attribute.
LITERAL = re.compile(r"(``.*?``|`[^`]*`_?)")
PAGE = re.compile(r"(?P<code>``)?\bdocs/([\w/]+)\.md(?(code)``)")
NAME = re.compile(rf"``((?:{'|'.join(ELSEWHERE)})\.[\w.]+)``")
PLAIN = re.compile(r"\||(?<=\w)_(?!\w)")


def as_plain_words(app, what, name, obj, options, lines):
    """Keep |x| and shape_ as they are written; lead from names of pages and classes to them."""
    code = False
    for k, written in enumerate(lines):
        if written == ":Other Parameters:":
            written = ":Leave these alone unless you need them:"
        line = NAME.sub(r":py:obj:`\1`", PAGE.sub(r":doc:`/\2`", written))
        code = bool(line.strip()) and (code or line.lstrip().startswith(">>>"))
        if not code:
            parts = LITERAL.split(line)
            parts[::2] = [PLAIN.sub(r"\\\g<0>", words) for words in parts[::2]]
            lines[k] = "".join(parts)


def setup(app):
    """Attach what is ours."""
    app.connect("autodoc-process-docstring", as_plain_words, priority=900)  # after numpydoc
