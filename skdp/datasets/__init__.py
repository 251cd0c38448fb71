"""Public data sets with their public domain: bounds and levels, and the reason for each.

``load_`` functions return data sets that are part of scikit-learn. ``fetch_`` functions read a
folder or ask OpenML. The domains are part of this package and do not depend on where the data
come from.
"""

from skdp.datasets._dataset import Dataset
from skdp.datasets._declared import Reason, domain_of, names
from skdp.datasets._fetch import DataNotFound, fetch
from skdp.datasets._named import (
    fetch_adult,
    fetch_airfoil,
    fetch_bank_marketing,
    fetch_bike_sharing,
    fetch_california_housing,
    fetch_concrete,
    fetch_credit_default,
    fetch_electricity,
    fetch_german_credit,
    fetch_heart,
    fetch_ionosphere,
    fetch_king_county,
    fetch_magic,
    fetch_mushroom,
    fetch_nyc_flights,
    fetch_pima,
    fetch_protein,
    fetch_pumpkin_seeds,
    fetch_spambase,
    fetch_wine_quality,
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
)

__all__ = [
    "DataNotFound",
    "Dataset",
    "Reason",
    "domain_of",
    "fetch",
    "fetch_adult",
    "fetch_airfoil",
    "fetch_bank_marketing",
    "fetch_bike_sharing",
    "fetch_california_housing",
    "fetch_concrete",
    "fetch_credit_default",
    "fetch_electricity",
    "fetch_german_credit",
    "fetch_heart",
    "fetch_ionosphere",
    "fetch_king_county",
    "fetch_magic",
    "fetch_mushroom",
    "fetch_nyc_flights",
    "fetch_pima",
    "fetch_protein",
    "fetch_pumpkin_seeds",
    "fetch_spambase",
    "fetch_wine_quality",
    "load_breast_cancer",
    "load_diabetes",
    "load_digits",
    "load_iris",
    "load_wine",
    "names",
]
