"""The diagram of an estimator leads to its documentation, and shows only what was released."""

import html
import re
from pathlib import Path

import numpy as np
import pytest
from inner_package import DOCUMENTATION
from public_estimators import all_estimators

from skdp import Domain, DPLogisticRegression, Ledger

ROOT = next(folder for folder in Path(__file__).parents if (folder / "pyproject.toml").exists())


def instance(name):
    kind = all_estimators()[name]
    if name == "PrivateSearchCV":
        return kind(DPLogisticRegression(), {})
    return kind(Domain.unit_box(1)) if name == "DomainEncoder" else kind()


@pytest.mark.parametrize("name", all_estimators())
def test_a_link_to_the_documentation(name):
    """The page is one of the documentation, and describes this class alone."""
    link = instance(name)._get_doc_link()
    assert link.startswith(DOCUMENTATION)
    source = ROOT / "docs" / Path(link.removeprefix(DOCUMENTATION)).with_suffix(".md")
    assert re.findall(r"^\.\. auto.+$", source.read_text(), re.MULTILINE) == [
        f".. autoclass:: {name}"
    ]
    assert f'href="{html.escape(link)}"' in instance(name)._repr_html_()


def test_a_subclass_of_a_user_has_no_link():
    class Own(DPLogisticRegression):
        pass

    assert Own()._get_doc_link() == ""


@pytest.mark.parametrize("name", sorted(set(all_estimators()) - {"DomainEncoder"}))
def test_a_diagram_shows_no_private_attribute(name):
    """Newer versions of scikit-learn show fitted attributes; these are public and documented."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (400, 1)), np.arange(400) % 2
    model = instance(name).set_params(epsilon=3.0, ledger=Ledger(9.0)).fit(X, y)
    shown = model._repr_html_()
    assert name in shown
    hidden = {
        one for part in (model, getattr(model, "best_estimator_", model)) for one in vars(part)
    }
    hidden = {one for one in hidden if one.startswith("_")}
    assert hidden
    assert not [one for one in hidden if f">{one}<" in shown.replace(" ", "").replace("\n", "")]
