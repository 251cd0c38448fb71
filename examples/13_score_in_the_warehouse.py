"""Score in the warehouse: a private model as an SQL expression and as an ONNX graph.

This example is for data teams whose rows stay in a database. DuckDB reads a Parquet file, a private
regression is fitted to its relation, and the model returns to the database as an expression.

The 100,000 contracts are simulated. The seeds (`random_state`) make the results repeatable, and
void the guarantee: leave them out for private data.
"""

# %%
from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import duckdb
import numpy as np
import onnxruntime
import pandas as pd

from skdp import Domain, DPPoissonRegressor

RNG = np.random.default_rng(0)
N = 100_000
CONTRACTS = pd.DataFrame(
    {
        "age": RNG.integers(18, 95, N),
        "power": RNG.gamma(4, 25, N).round(),
        "fuel": RNG.choice(["petrol", "diesel", "electric"], N, p=[0.5, 0.4, 0.1]),
    }
)
RISK = (
    -1.5 + CONTRACTS["power"] / 150 - CONTRACTS["age"] / 60 + 0.3 * (CONTRACTS["fuel"] == "diesel")
)
CONTRACTS["claims"] = RNG.poisson(np.exp(RISK))
CONTRACTS.loc[RNG.random(N) < 0.05, "power"] = np.nan
FILE = Path(mkdtemp()) / "contracts.parquet"
DATABASE = duckdb.connect()
DATABASE.register("simulated", CONTRACTS)
DATABASE.sql(f"COPY simulated TO '{FILE}' (FORMAT parquet)")

# %% [markdown]
# ## Fit to a relation
# The bounds are public knowledge. A contract without a known power is read as one of 100 kW.

# %%
DOMAIN = Domain(
    {"age": (18, 90), "power": (20, 250), "fuel": ["petrol", "diesel", "electric"]},
    target=(0, 20),
    missing={"power": 100},
)
RELATION = DATABASE.sql(f"SELECT age, power, fuel, claims FROM '{FILE}' WHERE age >= 18")
MODEL = DPPoissonRegressor(epsilon=1.0, domain=DOMAIN, random_state=0)
MODEL.fit(RELATION, target="claims")
print(MODEL.guarantee_)

# %% [markdown]
# ## The expression
# It has the clipping bounds, the rule for missing cells and the coefficients. The mean has a cap:
# beyond half of it, the exponential turns into a curve that stays below it.

# %%
EXPRESSION = MODEL.to_sql()
print(EXPRESSION)

# %% [markdown]
# ## Score inside DuckDB
# No row leaves the database.

# %%
SCORED = DATABASE.sql(f"SELECT *, {EXPRESSION} AS expected FROM '{FILE}'")
print(DATABASE.sql("SELECT fuel, avg(claims), avg(expected) FROM SCORED GROUP BY fuel ORDER BY 1"))

# %% [markdown]
# ## Compare
# The expression, the graph of ONNX and Python have the same predictions.

# %%
ROWS = CONTRACTS[list(DOMAIN.names)]
PYTHON = MODEL.predict(ROWS)
SQL = SCORED.fetchnumpy()["expected"]
SESSION = onnxruntime.InferenceSession(MODEL.to_onnx().SerializeToString())
CELLS = {name: ROWS[[name]].to_numpy(float) for name in ("age", "power")}
CELLS["fuel"] = ROWS[["fuel"]].to_numpy(object)
(ONNX,) = SESSION.run(["predict"], CELLS)
print("greatest difference of SQL: ", np.abs(SQL - PYTHON).max())
print("greatest difference of ONNX:", np.abs(ONNX - PYTHON).max())
