"""What estimators of several folders tell scikit-learn."""

from __future__ import annotations

# As the documentation's address in the project's metadata, which a test compares. A constant does
# not depend on how the package was installed.
DOCUMENTATION = "https://skdp.readthedocs.io/en/stable/"


class Documented:
    """Base of estimators whose diagram leads to the documentation of their class."""

    # Names of scikit-learn, which reads them in `_get_doc_link`.
    _doc_link_module = "skdp"
    _doc_link_template = DOCUMENTATION + "reference/estimators/{name}.html"

    def _doc_link_url_param_generator(self) -> dict[str, str]:
        return {"name": type(self).__name__}
