"""Reading and writing of tables of any kind: text, Parquet, Feather, frames; and hostile files."""

import csv
import gzip
import io

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rapidbm.data import text_files
from rapidbm.data.arrow import read_table, write_table
from rapidbm.errors import InputError

TABLE = pa.table(
    {
        "name": ["Ann", None, "Ben, the 2nd"],
        "age": pa.array([31, 7, None], pa.int64()),
        "size": [1.71, 1e-9, 0.1 + 0.2],
        "odd": ["=1+1", "'=x", "-"],
    }
)


def of_text(tmp_path, text, name="a.csv", **more):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(tmp_path / name, **more)


def refused(words, function, *given, **more):
    with pytest.raises(InputError, match=words):
        function(*given, **more)


@pytest.mark.parametrize(
    "text",
    [
        "a,b,c\n1,x,0.5\n2,y z,1\n",
        "a;b;c\r\n1;x;0,5\r\n2;y z;1\r\n",
        "a\tb\tc\n1\tx\t0.5\n2\ty z\t1",
        "a|b|c\n1|x|.5\n2|y z|1e0\n",
        ' a , b ,c\n 1, x ,  0.5\n2 ,"y z", 1 \n',
        '"a","b","c"\n"1","x","0.5"\n\n"2", "y z","1"\n',
        "\ufeffa,b,c\n1,x,0.5\n2,y z,1\n",
        "# of May\n\n#\na,b,c\n1,x,0.5\n+2,y z,+1\n",
        "a,b,c\n1,x,0.5\n2,y z,1\n".encode("utf-16"),
    ],
)
def test_ways_to_write_a_table(tmp_path, text):
    table = of_text(tmp_path, text)
    assert table.to_pydict() == {"a": [1, 2], "b": ["x", "y z"], "c": [0.5, 1.0]}
    assert [f"{field.type}" for field in table.schema] == ["int64", "string", "double"]


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.data", "a.CSV"])
def test_endings_of_text(tmp_path, name):
    assert of_text(tmp_path, "a\tb\n1\tx\n", name).to_pydict() == {"a": [1], "b": ["x"]}
    packed = gzip.compress(b"a\tb\n1\tx\n")
    assert of_text(tmp_path, packed, f"{name}.gz").to_pydict() == {"a": [1], "b": ["x"]}


def test_cells_that_are_missing(tmp_path):
    text = "a,b,c\n,?, \nNA,NaN,null\nn/a,nan,NULL\n1,none,-\n"
    assert of_text(tmp_path, text).to_pydict() == {
        "a": [None, None, None, 1],
        "b": [None, None, None, "none"],
        "c": [None, None, None, "-"],
    }
    mine = of_text(tmp_path, "a,b\n-,none\nx,y\n", missing=("-", "NONE"))
    assert mine.to_pydict() == {"a": [None, "x"], "b": [None, "y"]}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["01067", "99999"], "string"),
        (["1", "-2"], "int64"),
        (["1", "2.5"], "double"),
        (["1", "99999999999999999999"], "double"),
        (["1", "x"], "string"),
        (["true", "false"], "string"),
        (["inf", "1"], "double"),
        (["0", "0.5"], "double"),
        (["", "?"], "string"),
    ],
)
def test_types_of_text(tmp_path, cells, kind):
    table = of_text(tmp_path, "a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    assert f"{table['a'].type}" == kind
    if kind == "string":
        assert table["a"].to_pylist() == [cell if cell not in ("", "?") else None for cell in cells]


def test_quotes_after_blanks_and_separators_in_quotes(tmp_path):
    text = 'a,b\n1, "x, ""y"""\n2,"z\nz"\n'
    assert of_text(tmp_path, text)["b"].to_pylist() == ['x, "y"', "z\nz"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no line of names"),
        ("# only\n", "holds no line of names"),
        ("a,b,a\n1,2,3\n", "columns 1 and 3 have the same name, 'a' and 'a'; rename one"),
        ("first name,b,firstname\n1,2,3\n", "columns 1 and 3 have names that differ by blanks only"),
        ("a,a \n1,2\n", "columns 1 and 2 have the same name"),
        (",a\n0,1\n", r"column 1 has no name; name it, or leave it out if it only counts rows .pandas"),
        (
            "a,b\n1,2\n3\n4,5\n",
            r"every row must have 2 cells, as many as the first line, and row 2 \('3'\) has 1",
        ),
        ("a,b\n1,2\n3,4,5\n", r"and row 2 \('3,4,5'\) has 3"),
        ("a,b\n1,\0\n", "character 0"),
        ("a," + "b" * 1001 + "\n1,2\n", "column 2: a name has at most 1,000 characters"),
    ],
)
def test_text_that_is_no_table(tmp_path, text, words):
    refused(words, of_text, tmp_path, text)


def test_too_many_columns(tmp_path):
    refused(
        "at most 20,000 columns, not 30,000", of_text, tmp_path, ",".join(f"c{i}" for i in range(30_000))
    )


def test_text_that_is_not_utf_8_is_of_windows(tmp_path):
    assert of_text(tmp_path, "größe,b\n1,ü\n".encode("cp1252")).to_pydict() == {"größe": [1], "b": ["ü"]}


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "parquet", "feather", "arrow"])
def test_what_is_written_is_read(tmp_path, ending):
    write_table(TABLE, tmp_path / f"a.{ending}")
    assert read_table(tmp_path / f"a.{ending}").equals(TABLE)


def test_a_spreadsheet_sees_no_formula(tmp_path):
    write_table({"=name": ["=1+1", "@x", "-5", "plain"]}, tmp_path / "a.csv")
    cells = [row[0] for row in csv.reader(io.StringIO((tmp_path / "a.csv").read_text()))]
    assert cells == ["'=name", "'=1+1", "'@x", "-5", "plain"]
    assert read_table(tmp_path / "a.csv").to_pydict() == {"=name": ["=1+1", "@x", "-5", "plain"]}


def test_a_column_of_its_own_may_have_missing_cells(tmp_path):
    write_table({"a": [1, None, 3]}, tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv").to_pydict() == {"a": [1, None, 3]}


WORD = st.text("ab=+-@',;\"\n\té 1", min_size=1, max_size=6).map(str.strip)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(WORD, st.floats(-1e300, 1e300), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_any_cells_are_written_and_read(tmp_path_factory, rows):
    words, reals, whole = zip(*rows, strict=True)
    table = read_table(
        {"w": [f"x{word}" if word[:1].isalnum() else word for word in words], "x": reals, "n": whole}
    )
    path = tmp_path_factory.mktemp("t") / "a.csv"
    write_table(table, path)
    back = read_table(path)
    assert back["w"].to_pylist() == table["w"].to_pylist()
    assert back["x"].cast(pa.float64()).to_pylist() == table["x"].to_pylist()
    assert back["n"].to_pylist() == table["n"].to_pylist()


# -- frames and columns ---------------------------------------------------------------------------------


class Capsule:
    """What has nothing but Arrow's stream."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def test_frames():
    assert read_table(Capsule(TABLE)).equals(TABLE)
    frame = pandas.DataFrame(
        {"a": pandas.Categorical(["x", " y ", None]), "b": [1.5, np.nan, 2], "c": ["u", "", "w"]}
    )
    expected = {"a": ["x", "y", None], "b": [1.5, None, 2.0], "c": ["u", None, "w"]}
    assert read_table(frame).to_pydict() == expected
    assert read_table(frame[frame.b != 1.5]).column_names == ["a", "b", "c"]  # rows have labels now
    assert read_table(frame.set_index("c")).column_names == ["a", "b"]
    refused("columns 1 and 2 have the same name", read_table, frame.set_axis(["a", "a", "c"], axis=1))


def test_columns_by_name():
    given = {
        "a": np.array([1, 2]),
        "b": ["x", None],
        "c": pa.array([True, None]),
        "d": pandas.Series([1.0, np.nan]),
    }
    assert read_table(given).to_pydict() == {
        "a": [1, 2],
        "b": ["x", None],
        "c": [True, None],
        "d": [1.0, None],
    }
    refused(
        "'b' must be a list or an array of one kind of value", read_table, {"a": [1], "b": [[1], "x"]}
    )
    refused("same number of rows: 'a' has 1, 'b' 2; complete it", read_table, {"a": [1], "b": [1, 2]})
    refused("must have a column, and this one has none", read_table, {})
    refused("columns have names of text, not 3", read_table, {3: [1]})
    refused("not ndarray; an array has no names", read_table, np.eye(3))
    refused("cannot be read by its __arrow_c_stream__", read_table, Capsule(None))


def test_types_of_others():
    kinds = {
        "large": pa.large_string(),
        "view": pa.string_view(),
        "dict": pa.dictionary(pa.int8(), pa.string()),
    }
    for kind in kinds.values():
        table = read_table(pa.table({"a": pa.array(["x", None, " y"]).cast(kind)}))
        assert table["a"].type == pa.string()
        assert table["a"].to_pylist() == ["x", None, "y"]
    table = pa.table(
        {"d": pa.array([1, 2]).cast(pa.decimal128(22, 2)), "h": pa.array(np.array([1, 2], np.float16))}
    )
    assert [f"{field.type}" for field in read_table(table).schema] == ["double", "float"]


# -- Parquet and Feather --------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_files_of_pandas(tmp_path, ending):
    frame = pandas.DataFrame({"a": pandas.Categorical(["x", "y"] * 20_000), "b": np.arange(40_000.0)})
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        frame[frame.b != 1].to_parquet(path)
    else:
        frame[frame.b != 1].reset_index(drop=True).to_feather(path)
    table = read_table(path)
    assert table.column_names == ["a", "b"]
    assert table["b"].to_pylist() == [0.0, *range(2, 40_000)]
    assert table["a"].to_pylist() == ["x", *["x", "y"] * 19_999]


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_damaged_files_are_refused_and_leave_this_process_alive(tmp_path, ending):
    rng = np.random.default_rng(0)
    big = pa.table({"w": [f"word {i % 7}" for i in range(3000)], "x": rng.normal(size=3000)})
    write_table(big, tmp_path / f"a.{ending}")
    content = (tmp_path / f"a.{ending}").read_bytes()
    for at in (0, 2, len(content) // 2, len(content) - 30, len(content) - 6):
        broken = bytearray(content)
        broken[at : at + 4] = b"\xff" * 4
        (tmp_path / f"b.{ending}").write_bytes(broken)
        try:
            read_table(tmp_path / f"b.{ending}")
        except InputError as error:
            assert f"b.{ending} cannot be read as" in str(error)  # noqa: PT017
    (tmp_path / f"b.{ending}").write_bytes(content[: len(content) // 2])
    refused("cannot be read as", read_table, tmp_path / f"b.{ending}")
    (tmp_path / f"b.{ending}").write_bytes(b"")
    refused("begins neither as Parquet nor as Feather", read_table, tmp_path / f"b.{ending}")


def test_a_dictionary_that_unpacks_to_too_much(tmp_path):
    """One word of 2^20 characters in 2^20 rows: a few kB in the file, 10^12 bytes as a column."""
    words = pa.DictionaryArray.from_arrays(np.zeros(2**20, np.int8), ["x" * 2**20])
    pyarrow.parquet.write_table(pa.table({"a": words}), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 2**21
    refused("cannot be read as Parquet", read_table, tmp_path / "a.parquet")


# -- text that is hostile -------------------------------------------------------------------------------


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "SMALL", 2**20)
    zeros = gzip.compress(b"a,b\n" + b"0,0\n" * 2**21)
    assert len(zeros) < 2**15
    refused("unpacks to more than 200 times its .* bytes", of_text, tmp_path, zeros, "a.csv.gz")
    rng = np.random.default_rng(0)
    honest = "a,b\n" + "".join(f"{x},1\n" for x in rng.normal(size=100_000))
    assert of_text(tmp_path, gzip.compress(honest.encode()), "b.csv.gz").num_rows == 100_000


def test_memory_is_asked_for_first(tmp_path, monkeypatch):
    monkeypatch.setattr("rapidbm.accel.memory.free_memory", lambda: 1000.0)
    refused("would take 1.2 kB of memory", of_text, tmp_path, "a,b\n" + "1,2\n" * 24)


@pytest.mark.parametrize("content", [gzip.compress(b"a,b\n1,2\n", mtime=0)[:-4], b"no gzip", b""])
def test_a_gz_that_is_none(tmp_path, content):
    refused("cannot be read as a table of text", of_text, tmp_path, content, "a.csv.gz")


def test_a_cell_of_many_characters(tmp_path):
    refused("cannot be read as a table of text", of_text, tmp_path, 'a,b\n1,"' + "x" * 2**25)


def test_files_that_are_none(tmp_path):
    refused("has the ending '.xlsx'; a table is .csv, .tsv", read_table, tmp_path / "a.xlsx")
    refused("has the ending '.gz'", read_table, tmp_path / "a.parquet.gz")
    refused("there is no file", read_table, str(tmp_path / "a.csv"))
    refused("must end in .csv", write_table, TABLE, tmp_path / "a.xlsx")
    (tmp_path / "a.csv").mkdir()
    refused("there is no file", read_table, tmp_path / "a.csv")
