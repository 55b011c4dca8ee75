"""How Sphinx makes the site of what ``collect.py`` has gathered; run by ``build.py``."""

import re
from pathlib import Path
from textwrap import indent

from inventories import write_inventories

import loaderviz

OF_SHORT_NAMES = {
    "Figure": "loaderviz.figures.display.Figure",
    "LoaderShare": "loaderviz.why.loader_share.LoaderShare",
    "PredictedPadding": "loaderviz.why.predicted_padding.PredictedPadding",
    "Slowest": "loaderviz.why.slowest_rank.Slowest",
    "Unequal": "loaderviz.why.unequal_epochs.Unequal",
}
TYPE_VARIABLES_IN = ("sharding", "course.datasets.splits", "course.datasets.shuffling")

project = "loaderviz"
copyright = "the loaderviz authors, Apache-2.0"
version = release = loaderviz.__version__

extensions = [
    "myst_nb",  # Markdown and notebooks
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["home_text.md"]  # included by the home page

html_theme = "furo"
html_title = "loaderviz"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

nb_execution_mode = "off"  # they are lean: `make notebooks` runs them
nb_remove_code_outputs = False
myst_enable_extensions = ["html_image"]  # a picture with a width is a picture
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # notebooks begin some sections with a smaller heading

default_role = "code"  # docstrings put one backtick or two
autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
napoleon_use_rtype = False
python_maximum_signature_line_length = 80
nitpicky = True

# No network: the names of other projects that docstrings use are in inventories of our own.
intersphinx_mapping = write_inventories(Path(__file__).parent / "_inventories")
nitpick_ignore = [
    *(("py:class", f"loaderviz.{module}.T") for module in TYPE_VARIABLES_IN),
    ("py:class", "style.ThemeName"),  # "light" or "dark"
    ("py:class", "Mapping[str"),  # of a signature that has a name for type checkers only
    ("py:exc", "traitlets.TraitError"),
]


def setup(app):
    """Three things that docstrings leave to their reader."""
    app.connect("autodoc-process-docstring", prepare, priority=400)  # before napoleon
    app.connect("missing-reference", find_by_short_name)


def prepare(app, what, name, obj, options, lines):
    """Docstrings of modules are for readers of the code; ``n: how many samples`` is an argument."""
    if what == "module":
        lines.clear()
    paragraphs = "\n".join(lines).split("\n\n")
    lines[:] = "\n\n".join(map(as_arguments, paragraphs)).split("\n")


def as_arguments(paragraph):
    names_one = [re.match(r"\w+: |    ", line) for line in paragraph.splitlines()]
    if not names_one or not all(names_one):
        return paragraph
    return f"Args:\n{indent(paragraph, '    ')}"


def find_by_short_name(app, env, node, contnode):
    """What a module imports for type checkers only stays as it is written there: ``Figure``."""
    name = OF_SHORT_NAMES.get(node.get("reftarget"))
    if name is None:
        return None
    return env.domains["py"].resolve_xref(
        env, node["refdoc"], app.builder, "class", name, node, contnode
    )
