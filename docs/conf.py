"""Settings of Sphinx: the appearance of the site and the conversion of docstrings."""

from typing import Any, cast

from qmgr_client import aio
from qmgr_protocol.version import VERSION

project = "qmgrd"
release = VERSION
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
smartquotes = False  # They would turn the two dashes of an option into one.
html_theme = "furo"
html_title = f"qmgrd {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80
add_module_names = False


def _skip(app: Any, what: str, name: str, found: Any, skip: bool, options: Any) -> bool | None:
    """Omits the fields of named tuples, whose docstrings are "Alias for field number 0"."""
    return True if type(found).__name__ == "_tuplegetter" else None


def _literal(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Marks an indented part of a docstring, such as a drawing or an example, as literal."""
    for number in range(len(lines) - 1, 0, -1):
        above = [line for line in lines[:number] if line.strip()]
        indented = lines[number].startswith("    ") and not lines[number - 1].strip()
        if indented and above and not above[-1].startswith((" ", ":", "..")):
            lines[number:number] = ["::", ""]


def setup(app: Any) -> None:
    """Connects both handlers."""
    # A closed client has a placeholder for its session, which raises an error at every access.
    aio.QueueManager._session = cast(Any, None)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-docstring", _literal)
