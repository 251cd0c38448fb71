"""Docstrings name every parameter of public classes and functions, and every fitted attribute."""

import inspect
import pkgutil
from importlib import import_module

import pytest
from numpydoc import docscrape
from public_estimators import all_estimators, is_private

import skdp
from skdp import Domain, DPLogisticRegression


def exported():
    """Classes and functions that the package and its folders export, by their full names."""
    found = {}
    for module in pkgutil.walk_packages(skdp.__path__, "skdp."):
        if module.ispkg and module.name.count(".") == 1 and not is_private(module.name):
            own = import_module(module.name)
            for name in getattr(own, "__all__", ()):
                part = getattr(own, name)
                if inspect.isfunction(part) or (inspect.isclass(part) and has_parameters(part)):
                    found[f"{module.name}.{name}"] = part
    return found


def has_parameters(kind):
    """Whether a class is made with parameters of its own: no protocol and no exception."""
    return not (getattr(kind, "_is_protocol", False) or issubclass(kind, Exception))


def documented(part, section):
    """Names in a section of a docstring."""
    entries = docscrape.NumpyDocString(inspect.getdoc(part))[section]
    return [name.strip().lstrip("*") for entry in entries for name in entry.name.split(",")]


PUBLIC = exported()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name):
    """Fields of a class of results may be documented as attributes."""
    part = PUBLIC[name]
    parameters = [own for own in inspect.signature(part).parameters if own != "self"]
    names = documented(part, "Parameters") + documented(part, "Other Parameters")
    if inspect.isclass(part) and not names:
        names = documented(part, "Attributes")
    assert sorted(names) == sorted(parameters)


def without_docstring(kind):
    """Methods and properties that are described neither in a class nor in a base class of ours."""
    kinds = [vars(base) for base in kind.__mro__ if base.__module__.startswith("skdp.")]
    members = {
        name
        for own in kinds
        for name, part in own.items()
        if hasattr(part, "__get__") and not inspect.ismemberdescriptor(part) and name[0] != "_"
    }
    return sorted(
        name for name in members if not any(own[name].__doc__ for own in kinds if name in own)
    )


@pytest.mark.parametrize("name", [name for name in PUBLIC if inspect.isclass(PUBLIC[name])])
def test_every_member_has_a_docstring(name):
    """Its own, or that of a base class."""
    assert without_docstring(PUBLIC[name]) == []


@pytest.mark.parametrize("name", all_estimators())
@pytest.mark.parametrize("section", ["Parameters", "Other Parameters", "Attributes"])
def test_every_entry_of_an_estimator_has_a_type(name, section):
    """Entries of one name each, from which scikit-learn's diagrams take their descriptions."""
    entries = docscrape.NumpyDocString(inspect.getdoc(all_estimators()[name]))[section]
    assert not [entry.name for entry in entries if "," in entry.name or not entry.type]


# Descriptions that differ between estimators, since the parameters do.
OWN = {"delta", "domain", "mechanism", "loss", "scaling_share", "clip", "threshold"}


def test_shared_parameters_have_one_description():
    """Every estimator describes all of its parameters, and those of the same meaning alike."""
    texts = {}
    for name in set(all_estimators()) - {"PrivateSearchCV", "DomainEncoder"}:
        doc = docscrape.NumpyDocString(inspect.getdoc(all_estimators()[name]))
        for entry in doc["Parameters"] + doc["Other Parameters"]:
            texts.setdefault(entry.name, set()).add((entry.type, " ".join(entry.desc)))
    several = {name for name, found in texts.items() if len(found) > 1}
    assert several <= OWN
    assert len(texts.keys() - OWN) > 10


@pytest.mark.parametrize(
    "name", sorted(set(all_estimators()) - {"DomainEncoder", "PrivateSearchCV"})
)
def test_the_signature_has_the_order_of_the_docstring(name):
    """What everybody sets comes first, and what experts set comes last."""
    own = all_estimators()[name]
    first, last = documented(own, "Parameters"), documented(own, "Other Parameters")
    assert [*inspect.signature(own).parameters] == [*first, *last]
    assert first[:5] == ["epsilon", "delta", "domain", "neighbors", "ledger"]
    assert {"mechanism", "n_public", "rows_per_person"} <= {*last}
    assert len(first) <= 11


def test_a_logistic_regression_has_seventeen_parameters():
    assert len(inspect.signature(DPLogisticRegression).parameters) == 17


@pytest.mark.parametrize(
    ("name", "given", "remedy"),
    [
        ("DPLogisticRegression", {"C": 2.0}, "regularization = 1 / C"),
        ("DPHuberRegressor", {"alpha": 2.0}, "regularization = n_records"),
        ("DPLogisticRegression", {"penalty": "l1"}, "DPCoordinateDescentClassifier"),
        ("DPLinearRegression", {"alpha": 1.0}, "see postprocess"),
        ("DPCoordinateDescentClassifier", {"C": 1.0}, "alpha = 1 / "),
        ("DPLogisticRegression", {"data_norm": 1.0}, "Domain.l2_ball"),
        ("DPLogisticRegression", {"accountant": None}, "ledger=Ledger"),
    ],
)
def test_names_of_other_packages_get_an_error_with_the_name_here(name, given, remedy):
    with pytest.raises(TypeError, match=remedy):
        all_estimators()[name](**given)


def methods():
    for name, kind in all_estimators().items():
        for method, own in inspect.getmembers(kind, inspect.isfunction):
            if not method.startswith("_") and own.__module__.startswith("skdp."):
                yield pytest.param(own, id=f"{name}.{method}")


@pytest.mark.parametrize("method", [*methods()])
def test_methods_say_what_they_do(method):
    """A section of parameters, where there is one, names all."""
    assert inspect.getdoc(method)
    if names := documented(method, "Parameters"):
        kinds = inspect.Parameter
        parameters = inspect.signature(method).parameters.values()
        given = {own.name for own in parameters if own.kind is not kinds.VAR_KEYWORD}
        # It is not in the signature: scikit-learn would ask for a route in every pipeline.
        given |= (
            {"sample_weight"} if method.__name__ == "fit" and "sample_weight" in names else set()
        )
        assert sorted(names) == sorted(given - {"self"})


FITS = {
    "DPLogisticRegression": [{}, {"n_labels": 3}],
    "DPCoordinateDescentClassifier": [{}, {"n_labels": 3}],
    "DPHuberRegressor": [{}],
    "DPPoissonRegressor": [{}],
    "DPGammaRegressor": [{}],
    "DPQuantileRegressor": [{}, {"quantile": [0.2, 0.8]}],
    "DPLinearRegression": [{}, {"mechanism": "matrix"}],
    "DPCoordinateDescentRegressor": [{}],
    "PrivateSearchCV": [{}],
    "DomainEncoder": [{}],
}


def fitted(name, n_labels=2, **settings):
    """An estimator that was fitted to a table with named columns."""
    kind = all_estimators()[name]
    is_regressor = name.endswith(("Regressor", "LinearRegression"))
    labels = list(range(n_labels))
    domain = Domain({"x": (0, 1), "k": ["a", "b"]}, (0, 1) if is_regressor else labels)
    X, y = domain.sample(400, random_state=0, with_target=True)
    if name == "DomainEncoder":
        return domain.encoder().fit(X)
    if name == "PrivateSearchCV":
        model = DPLogisticRegression(domain=domain)
        return kind(model, {"regularization": [1.0]}, epsilon=3.0, **settings).fit(X, y)
    return kind(domain=domain, **settings).fit(X, y)


def attributes(estimator):
    return {name for name, _ in inspect.getmembers(estimator) if is_fitted_attribute(name)}


def is_fitted_attribute(name):
    """By scikit-learn's convention."""
    return name.endswith("_") and not name.startswith("_")


@pytest.mark.parametrize("name", FITS)
def test_attributes_are_those_of_the_docstring(name):
    """Of several fits together, since some attributes depend on parameters."""
    found = set().union(*(attributes(fitted(name, **settings)) for settings in FITS[name]))
    assert sorted(found) == sorted(documented(all_estimators()[name], "Attributes"))


def test_the_attributes_of_every_estimator_are_compared():
    assert set(FITS) == set(all_estimators())
