"""Schemas of mixed tables: what columns are, rows as numbers and back, densities, and what is refused."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from rapidbm.data.arrow import read_table
from rapidbm.data.columns import Binned, Constant, Empty, Normal, Skipped, Words
from rapidbm.data.table_schema import TableSchema
from rapidbm.errors import InputError
from rapidbm.random import stream

RNG = np.random.default_rng(0)
N = 200
MIXED = {
    "sex": ["f", "m", None, "f"] * (N // 4),
    "smokes": [True, None, False, False] * (N // 4),
    "size": [None, *RNG.normal(1.7, 0.1, N - 1).tolist()],
    "city": RNG.choice(["Ulm", "Bonn", "Köln"], N).tolist(),
    "gain": np.where(RNG.random(N) < 0.7, 0.0, np.exp(RNG.normal(size=N))).tolist(),
    "hours": pa.array(np.where(RNG.random(N) < 0.4, 40, RNG.integers(1, 90, N)), pa.int16()),
    "rooms": RNG.integers(1, 6, N),
    "land": ["D"] * N,
    "nothing": [None] * N,
    "age": RNG.integers(18, 99, N),
    "vote": [3.5, None, 1.5, 3.5] * (N // 4),
}
TABLE = read_table(MIXED)


@pytest.fixture(scope="module")
def schema():
    return TableSchema.recognise(TABLE)


def folder(name):
    root = os.environ.get("RAPIDBM_DATA")
    if not root or not (Path(root) / "tables" / name).is_file():
        pytest.skip("the table is not here; set RAPIDBM_DATA")
    return Path(root) / "tables" / name


def refused(words, function, *given, **more):
    with pytest.raises(InputError, match=words):
        function(*given, **more)


# -- what columns are -----------------------------------------------------------------------------------


def test_what_columns_are(schema):
    kinds = {column.name: type(column) for column in schema.columns}
    assert kinds == {
        "sex": Words, "smokes": Words, "size": Normal, "city": Words, "gain": Normal, "hours": Normal,
        "rooms": Words, "land": Constant, "nothing": Empty, "age": Normal, "vote": Words,
    }  # fmt: skip
    by_name = {column.name: column for column in schema.columns}
    assert by_name["gain"].atoms == (0.0,)
    assert by_name["hours"].atoms == (40.0,)
    assert not by_name["gain"].whole
    assert by_name["hours"].whole
    assert schema.layers() == [("spin", 5), ("categorical", (3, 5)), ("gaussian", 4)]
    assert schema.unit_columns == (
        "sex", "smokes", "gain", "hours", "vote", "city", "rooms", "size", "gain", "hours", "age",
    )  # fmt: skip


def test_a_line_for_each_column(schema):
    lines = schema.lines()
    assert lines[:2] == [
        "sex: two values, f and m; 50 missing",
        "smokes: two values, False and True; 50 missing",
    ]
    assert lines[2].startswith("size: real numbers from 1.")
    assert lines[3] == "city: 3 categories, Bonn, Köln, Ulm; 0 missing"
    assert "with a state of its own for 0 (" in lines[4]
    assert lines[7] == "land: D in every row; no unit, the value comes back in tables; 0 missing"
    assert lines[8].startswith("nothing: no value in any row; no unit")
    assert lines[9].startswith("age: integers from 18 to 98, a Gaussian unit")
    assert "vote: two values, 1.5 and 3.5; 50 missing" in lines


def test_parts_that_are_empty_are_left_out():
    assert TableSchema.recognise({"a": [0, 1]}).layers() == [("spin", 1)]
    assert TableSchema.recognise({"a": np.arange(30)}).layers() == [("gaussian", 1)]
    assert TableSchema.recognise({"a": list("xyz")}).layers() == [("categorical", (3,))]


@pytest.mark.parametrize(("rows", "kind"), [(99, Normal), (100, Words)])
def test_integers_of_few_values_are_a_category_where_each_has_five_rows(rows, kind):
    (column,) = TableSchema.recognise({"a": np.arange(rows) % 20}).columns
    assert type(column) is kind


def test_more_than_twenty_integers_are_numbers():
    assert type(TableSchema.recognise({"a": np.arange(900) % 21}).columns[0]) is Normal


def test_overrides():
    data = {
        "age": [1, 2, 3] * 20,
        "zip": [f"{i:05}" for i in range(60)],
        "x": ["1", "2.5", "7"] * 20,
        "y": [0, 1] * 30,
    }
    asked = {"age": "real", "zip": "skip", "x": "real", "y": "category"}
    schema = TableSchema.recognise(data, overrides=asked)
    assert [type(column) for column in schema.columns] == [Normal, Skipped, Normal, Words]
    assert schema.lines()[1] == "zip: left out, on request; 0 missing"
    table = schema.decode(schema.encode(data)[0], stream(0))
    assert table.column_names == ["age", "x", "y"]
    assert [f"{field.type}" for field in table.schema] == ["double", "double", "int64"]
    assert schema.encode({name: data[name] for name in ("y", "age", "x")})[0].shape == (60, 3)
    whole = TableSchema.recognise({"age": [1, 2, 3] * 20}, overrides={"age": "integer"})
    assert type(whole.columns[0]) is Normal
    refused(
        "unknown column 'agee': did you mean 'age'",
        TableSchema.recognise,
        data,
        overrides={"agee": "real"},
    )
    refused("unknown kind of column 'float'", TableSchema.recognise, data, overrides={"age": "float"})
    refused("'x', row 2: this is a column of whole", TableSchema.recognise, {"x": data["x"]},
            overrides={"x": "integer"})  # fmt: skip


# -- there and back -------------------------------------------------------------------------------------


def test_values_and_masks(schema):
    values, observed = schema.encode(TABLE)
    assert values.dtype == np.float64
    assert observed.dtype == np.bool_
    assert values.shape == observed.shape == (N, 11)
    assert values[:4, 0].tolist() == [-1, 1, 1, -1]  # f, m, missing, f
    assert observed[:4, 0].tolist() == [True, True, False, True]
    city = np.array([["Bonn", "Köln", "Ulm"].index(word) for word in MIXED["city"]])
    assert (values[:, 5] == city).all()
    gain = np.array(MIXED["gain"])
    assert (values[:, 2] == np.where(gain == 0, -1, 1)).all()
    assert (observed[:, 8] == (gain > 0)).all()
    assert not values[~observed[:, 8], 8].any()
    assert observed[:, 2].all()
    assert (values[0, 7], observed[0, 7]) == (0, False)
    assert abs(values[1:, 7].mean()) < 0.1
    assert values[1:, 7].std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("stored", [False, True])
def test_a_table_comes_back(schema, stored):
    if stored:
        schema = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    values, observed = schema.encode(TABLE)
    back = schema.decode(values, stream(0), observed=observed)
    assert back.schema.equals(TABLE.schema)
    for name in TABLE.column_names:
        if name in ("size", "gain"):
            np.testing.assert_allclose(back[name].to_numpy(), TABLE[name].to_numpy(), rtol=1e-9)
        else:
            assert back[name].to_pylist() == TABLE[name].to_pylist()


def test_the_order_of_columns_does_not_matter(schema):
    turned = TABLE.select(TABLE.column_names[::-1])
    for one, other in zip(schema.encode(TABLE), schema.encode(turned), strict=True):
        np.testing.assert_array_equal(one, other)


def test_without_a_mask_every_cell_has_a_value(schema):
    back = schema.decode(schema.encode(TABLE)[0], stream(0))
    assert {n for n in back.column_names if back[n].null_count} == {"nothing"}
    assert back["land"].to_pylist() == ["D"] * N


def test_numbers_stay_within_what_was_seen_unless_asked(schema):
    values = np.ones((2, 11))
    values[:, 5:7] = 0
    values[:, 7:] = [[-9] * 4, [9] * 4]
    inside, beyond = (schema.decode(values, stream(0), outside=x) for x in (False, True))
    for name in ("size", "age", "gain", "hours"):
        known = TABLE[name].drop_null().to_numpy()
        assert inside[name].to_pylist()[1] == known.max()
        assert inside[name].to_pylist()[0] == known[known != 0].min()
        assert beyond[name].to_pylist()[1] > known.max()


def test_the_type_of_a_column_may_change_where_its_values_are_the_same(schema):
    text = {
        name: [None if v is None else f"{v}" for v in TABLE[name].to_pylist()]
        for name in TABLE.column_names
    }
    text["smokes"] = [None if v is None else f"{v}".lower() for v in MIXED["smokes"]]
    real = TABLE.set_column(6, "rooms", TABLE["rooms"].cast(pa.float64()))
    for table in (text, real):
        for one, other in zip(schema.encode(TABLE), schema.encode(table), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_bins_come_back_in_their_bin():
    schema = TableSchema.recognise(TABLE, real="bins", bins=6)
    assert schema.layers()[-1][0] == "categorical"
    values, observed = schema.encode(TABLE)
    back = schema.decode(values, stream(0), observed=observed)
    again, still = schema.encode(back)
    assert back.schema.equals(TABLE.schema)
    np.testing.assert_array_equal(again, values)
    np.testing.assert_array_equal(still, observed)
    assert (
        back["hours"].to_numpy()[TABLE["hours"].to_numpy() == 40].tolist().count(40)
        == (TABLE["hours"].to_numpy() == 40).sum()
    )
    assert not back["size"].equals(TABLE["size"])
    same, other = (schema.decode(values, stream(seed)) for seed in (0, 1))
    assert same.drop_columns(["nothing"]).equals(
        schema.decode(values, stream(0)).drop_columns(["nothing"])
    )
    assert not same["size"].equals(other["size"])
    assert TableSchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


WORDS = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["x", "y", "é ü", "=1", None]), min_size=2, max_size=30))
def test_any_words_come_back(words):
    round_trip({"a": words, "b": range(len(words))}, exact=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(WORDS, min_size=3, max_size=20, unique=True), st.integers(1, 3))
def test_any_categories_come_back(words, times):
    schema = TableSchema.recognise({"a": words * times}, overrides={"a": "category"})
    values, observed = schema.encode({"a": words * times})
    assert observed.all()
    assert schema.decode(values, stream(0))["a"].to_pylist() == words * times


NUMBER = st.floats(-1e12, 1e12).map(lambda x: x if abs(x) > 1e-100 else 0.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), NUMBER), min_size=2, max_size=60))
def test_any_numbers_come_back(values):
    round_trip({"a": [*values, 0.5, 2.5], "b": [*values, 0.0, 0.0]}, exact=False)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-(10**9), 10**9)), min_size=2, max_size=60))
def test_any_integers_come_back(values):
    round_trip({"a": [*values, 0, 1], "b": [*values, 7, 7]}, exact=True)


def round_trip(columns, *, exact):
    table = read_table(columns)
    schema = TableSchema.recognise(table)
    schema = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    values, observed = schema.encode(table)
    back = schema.decode(values, stream(0), observed=observed)
    for name in table.column_names:
        if exact or not isinstance(schema.columns[table.column_names.index(name)], Normal):
            constant = isinstance(schema.columns[table.column_names.index(name)], Constant)
            told = [v for v in table[name].to_pylist() if v is not None or not constant]
            assert back[name].to_pylist()[: len(told)] == told
        else:
            given, found = table[name].to_numpy(), back[name].to_numpy()
            assert (np.isnan(given) == np.isnan(found)).all()
            scale = np.nanmax(np.abs(given))
            assert np.nanmax(np.abs(given - found)) <= 1e-9 * scale


# -- densities ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", ["gaussian", "bins"])
@pytest.mark.parametrize("column", ["gain", "size"])
def test_the_density_of_a_column_is_one_in_all(real, column):
    """Atoms by counting, the others by dx; the units independent, the Gaussian one standard normal."""
    known = TABLE.select([column]).drop_null()
    schema = TableSchema.recognise(known, real=real, overrides={column: "real"})
    values = schema.encode(known)[0]
    choices = [i for i, unit in enumerate(values.T) if i < values.shape[1] - (real == "gaussian")]

    def log_p(x):
        codes, seen = schema.encode({column: x})
        total = schema.log_jacobian({column: x})
        for i in choices:
            total += np.log((codes[:, i][:, None] == values[:, i]).mean(1))
        if real == "gaussian":
            total += np.where(seen[:, -1], norm.logpdf(codes[:, -1]), 0)
        return total

    x = known[column].to_numpy()
    span, (atoms,) = np.ptp(x), [schema.columns[0].atoms]
    edges = np.linspace(x.min() - 12 * span, x.max() + 12 * span, 400_001)
    middle = (edges[1:] + edges[:-1]) / 2
    mass = np.exp(log_p(middle)).sum() * (edges[1] - edges[0])
    mass += np.exp(log_p(np.array(atoms))).sum() if atoms else 0
    assert mass == pytest.approx(1, abs=2e-3)
    if column == "gain":
        assert atoms == (0.0,)
        assert np.exp(log_p(np.zeros(1)))[0] == pytest.approx((x == 0).mean())


def test_missing_cells_and_atoms_add_nothing(schema):
    total = schema.log_jacobian(TABLE)
    assert total.shape == (N,)
    alone = TableSchema.recognise({"gain": MIXED["gain"]})
    parts = alone.log_jacobian({"gain": MIXED["gain"]})
    assert (parts[np.array(MIXED["gain"]) == 0] == 0).all()
    assert (parts[np.array(MIXED["gain"]) > 0] != 0).all()
    empty = TABLE.slice(0, 1).to_pydict()
    assert schema.log_jacobian({name: [None] for name in empty}) == [0.0]
    assert not schema.encode({name: [None] for name in empty})[1].any()


def test_draws_have_the_shares_of_atoms_and_never_of_integers_twice():
    """An integer is an atom or comes from the map, not both: probabilities agree with frequencies."""
    x = np.where(RNG.random(5000) < 0.5, 40, RNG.integers(30, 51, 5000))
    schema = TableSchema.recognise({"x": x, "y": x % 2}, overrides={"x": "integer"})
    (atom,) = schema.columns[0].atoms
    assert atom == 40
    values = np.ones((100_000, 3))
    values[:, 2] = RNG.normal(size=100_000)
    drawn = schema.decode(values, stream(0))["x"].to_numpy()  # none at the atom
    assert (drawn != 40).all()
    for k in (30, 39, 41, 50):
        share = (x == k).sum() / (x != 40).sum()
        assert (drawn == k).mean() == pytest.approx(share, abs=0.01)


# -- what is refused ------------------------------------------------------------------------------------


def test_columns_that_are_not_those_of_the_schema(schema):
    renamed = TABLE.rename_columns(["gender" if n == "sex" else n for n in TABLE.column_names])
    refused(
        r"no column 'sex', which was learned; if it is 'gender', name it 'sex' again",
        schema.encode,
        renamed,
    )
    refused(
        r"no column 'size'.* \(2 are missing\); add it",
        schema.encode,
        TABLE.drop_columns(["size", "age"]),
    )
    more = TABLE.append_column("colour", pa.array(["red"] * N))
    refused(r"column 'colour' that was not learned; leave it out", schema.encode, more)


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("city", "Koeln", r"column 'city', row 3: 'Koeln' is not among the values that were learned "
                          r"\('Bonn', 'Köln', 'Ulm'\); did you mean 'Köln'\? correct it"),
        ("rooms", 9, r"column 'rooms', row 3: 9 is not among .*\(1, 2, 3, 4, 5\)"),
        ("smokes", 2, r"column 'smokes', row 3: 2 is not among"),
        ("land", "F", r"column 'land', row 3: 'F' is not among the values that were learned \('D'\)"),
        ("nothing", "F", r"column 'nothing', row 3: 'F' in a column that had no value"),
        ("size", float("inf"), r"column 'size', row 3: numbers must be finite .* not inf; leave"),
        ("size", "tall", r"column 'size', row 3: 'tall' is no number; correct the cell"),
        ("age", 17.5, r"column 'age', row 3: this is a column of whole numbers, not 17.5; round it"),
    ],
)  # fmt: skip
def test_cells_that_were_never_seen(schema, column, value, words):
    cells = [None, None, value]
    table = {name: cells if name == column else [None] * 3 for name in TABLE.column_names}
    refused(words, schema.encode, table)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"a": []}, "must have a row to be recognised by"),
        ({"a": [1, 1], "b": [None, None]}, "no column has two different values, .*: a: 1 in every row"),
        ({"a": [0.5, float("inf"), 2.5]}, r"column 'a', row 2: numbers must be finite"),
        ({"a": [float("-inf")] * 9}, r"column 'a', row 1: numbers must be finite"),
        ({"a": [float("nan"), 1e200, 2.5]}, r"row 2: numbers must be finite and below 1e\+150"),
        ({"a": [f"w{i}" for i in range(10_000)] * 3},
         r"'a': a category has at most 1,000 values, and there are 10,000 words in 30,000 rows, 'w1000' "
         r"in row 1001 among them; group the rare ones, or leave the column out"),
        ({"a": [f"name {i}" for i in range(100)]}, "100 different words in 100 rows tell rows apart"),
        ({"a": [*map(str, range(50)), "n.a."]}, r"row 51: most cells are numbers, but 'n.a.' is not one"),
        ({"a": [f"{i:03}" for i in range(30)]}, "holds numbers with a 0 in front.*leave the column out"),
        ({"a": [2**50 + i for i in range(50)]}, r"'a', row 1: whole numbers must be at most 2\^40"),
        ({"a": pa.array([0, 86_400], pa.timestamp("s"))}, r"'a' holds dates or times \(timestamp\[s\]\)"),
        ({"a": ["2024-01-31", "2024-02-01"]}, "'a' reads as dates or times .*days since a date"),
        ({"a": ["31.1.24", "1.2.2024 10:00"]}, "'a' reads as dates or times"),
        ({"a": [[1, 2], [3]]}, r"'a' holds list<.*convert it, or leave it out"),
        ({"a": ["x" * 1001, "y"]}, "a word has at most 1,000 characters.*has 1,001"),
        ({"a": ["x\0", "y"]}, "no character 0"),
        ({"a": [1.0, 1.0 + 1e-300, 1e-300, 2e-300] * 0 + [1e-300 * i for i in range(1, 99)]},
         "values differ by less than 1e-200; scale the column"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_recognised(data, words):
    refused(words, TableSchema.recognise, data)


def test_a_column_without_values_cannot_be_what_was_asked():
    data = {"a": [None] * 4, "b": [0, 1, 0, 1]}
    assert type(TableSchema.recognise(data).columns[0]) is Empty
    refused("'a' has no value in any of 4 rows.*kind real; fill it in", TableSchema.recognise, data,
            overrides={"a": "real"})  # fmt: skip


def test_options_that_are_none():
    refused("unknown way for real columns 'knn'", TableSchema.recognise, MIXED, real="knn")
    refused("number of bins", TableSchema.recognise, MIXED, bins=1)
    refused("number of quantiles", TableSchema.recognise, MIXED, quantiles=1.5)
    refused("must be at most 1,000, not 1,001", TableSchema.recognise, MIXED, quantiles=1001)


@pytest.mark.parametrize(
    ("unit", "value", "words"),
    [
        (0, 0.0, r"row 2, unit 1 \(column 'sex'\) must be −1 or 1, not 0"),
        (5, 3.0, r"unit 6 \(column 'city'\) must be a code from 0 to 2, not 3"),
        (5, 0.5, "must be a code from 0 to 2, not 0.5"),
        (9, np.nan, "unit 10 .column 'hours'. must be a finite number, not nan"),
    ],
)
def test_values_that_are_none_of_these_units(schema, unit, value, words):
    values = schema.encode(TABLE)[0]
    values[1, unit] = value
    refused(words, schema.decode, values, stream(0))


def test_shapes_that_do_not_fit(schema):
    values, observed = schema.encode(TABLE)
    refused(r"shape \(rows, 11\), not \(200, 3\)", schema.decode, values[:, :3], stream(0))
    refused("the mask must be booleans of shape", schema.decode, values, stream(0), observed=observed[:3])
    bins = TableSchema.recognise(TABLE, real="bins")
    refused("rng is a torch.Generator", bins.decode, bins.encode(TABLE)[0], 7)


def test_a_tensor_of_a_machine_is_decoded(schema):
    values = schema.encode(TABLE)[0]
    assert schema.decode(torch.from_numpy(values), stream(0)).num_rows == N


# -- as JSON --------------------------------------------------------------------------------------------


def change(path, value):
    def changed(told):
        part = told
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return told

    return changed


@pytest.mark.parametrize(
    "path_and_value",
    [
        (("version",), 2),
        (("columns",), {}),
        (("columns", 0), None),
        (("columns", 0, "kind"), "pickle"),
        (("columns", 0, "name"), "smokes"),
        (("columns", 0, "name"), " smo kes"),
        (("columns", 0, "type"), "object"),
        (("columns", 0, "values"), ["f", 1]),
        (("columns", 0, "values"), ["f", "f"]),
        (("columns", 0, "values"), ["f"]),
        (("columns", 0, "missing"), 1000),
        (("columns", 1, "values"), [0, 1]),
        (("columns", 2, "map", "knots"), [0.0, float("inf")]),
        (("columns", 2, "map", "knots"), [1.0, 0.0]),
        (("columns", 2, "whole"), 1),
        (("columns", 2, "type"), "string"),
        (("columns", 4, "atoms"), [0.0, 0.0]),
        (("columns", 4, "atoms"), ["0"]),
        (("columns", 5, "atoms"), [40.5]),
        (("columns", 4, "more"), 1),
        (("columns", 6, "values"), [1, 2.5, 3, 4, 5]),
        (("columns", 7, "value"), 3),
    ],
)
def test_json_that_is_no_schema(schema, path_and_value):
    told = change(*path_and_value)(json.loads(json.dumps(schema.to_json())))
    refused("; (recognise the table|rename one)", TableSchema.from_json, told)


def test_bins_as_json_are_checked():
    told = TableSchema.recognise(TABLE, real="bins").to_json()
    assert type(TableSchema.from_json(told).columns[2]) is Binned
    refused(
        "edges of bins must increase",
        TableSchema.from_json,
        change(("columns", 2, "bins", "edges"), [2.0, 1.0])(told),
    )
    refused("the schema of a table", TableSchema.from_json, [])


# -- real tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["adult.csv.gz", "penguins.csv"])
def test_tables_that_people_use_come_back(name):
    table = read_table(folder(name))
    schema = TableSchema.recognise(table)
    values, observed = schema.encode(table)
    back = schema.decode(values, stream(0), observed=observed)
    assert back.schema.equals(table.schema)
    for column in table.column_names:
        if f"{table[column].type}" == "double":
            np.testing.assert_allclose(back[column].to_numpy(), table[column].to_numpy(), rtol=1e-9)
        else:
            assert back[column].to_pylist() == table[column].to_pylist()
    assert np.isfinite(schema.log_jacobian(table)).all()


def test_what_adult_is():
    schema = TableSchema.recognise(folder("adult.csv.gz"))
    lines = {line.partition(":")[0]: line.partition(": ")[2] for line in schema.lines()}
    assert lines["income"] == "two values, <=50K and >50K; 0 missing"
    assert lines["capital-gain"].startswith(
        "integers from 0 to 99999, with a state of its own for 0 (92 %)"
    )
    assert lines["workclass"].endswith("1,836 missing")
    assert schema.layers() == [
        ("spin", 5), ("categorical", (8, 16, 16, 7, 14, 6, 5, 41)), ("gaussian", 5)
    ]  # fmt: skip


# -- decimals -----------------------------------------------------------------------------------------


def decimals(values):
    """The most decimals that any of the values is written with."""
    return max(len(repr(float(x)).partition(".")[2].rstrip("0")) for x in values)


@pytest.mark.parametrize("real", ["gaussian", "bins"])
@pytest.mark.parametrize("places", [1, 3])
def test_numbers_come_back_with_the_decimals_of_the_data(real, places):
    x = np.random.default_rng(places).normal(20, 4, 300).round(places)
    x[:40] = 20.5  # a state of its own
    schema = TableSchema.recognise({"x": x}, real=real)
    assert schema.columns[0].decimals == places
    again = TableSchema.from_json(json.loads(json.dumps(schema.to_json())))
    values = schema.encode({"x": x})[0]
    for outside in (False, True):
        back = np.array(again.decode(values, stream(0), outside=outside)["x"].to_pylist())
        assert decimals(back) <= places
        assert (schema.encode({"x": back})[0][:, 0] == values[:, 0]).all()  # bins and atoms stay
    assert len(np.unique(back)) > 50  # they are not all one number


def test_numbers_of_many_decimals_are_not_rounded():
    x = np.random.default_rng(0).normal(size=300)
    schema = TableSchema.recognise({"x": x, "y": x.astype(np.float32), "z": x * 1e6}, real="bins")
    assert [column.decimals for column in schema.columns] == [None, None, None]
    assert (
        decimals(
            schema.decode(schema.encode({"x": x, "y": x, "z": x * 1e6})[0], stream(0))["x"].to_pylist()
        )
        > 8
    )


def test_single_precision_has_decimals_too():
    x = np.random.default_rng(0).normal(40, 5, 300).round(1).astype(np.float32)
    schema = TableSchema.recognise({"x": x}, real="bins")
    assert schema.columns[0].decimals == 1
    back = schema.decode(schema.encode({"x": x})[0], stream(0))["x"]
    assert f"{back.type}" == "float"
    assert (np.round(back.to_numpy().astype(float), 1).astype(np.float32) == back.to_numpy()).all()


def test_a_schema_without_decimals_is_read_as_before():
    x = np.random.default_rng(0).normal(40, 5, 300).round(1)
    told = TableSchema.recognise({"x": x}, real="bins").to_json()
    del told["columns"][0]["decimals"]
    schema = TableSchema.from_json(told)
    assert decimals(schema.decode(schema.encode({"x": x})[0], stream(0))["x"].to_pylist()) > 8
    told["columns"][0]["decimals"] = 99
    refused("0 to 8 decimals, not 99", TableSchema.from_json, told)
