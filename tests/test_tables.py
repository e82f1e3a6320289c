"""Tables of text: separators, quotes, names, what is missing; samples as tables."""

import csv

import numpy as np
import pytest
import torch

from rapidbm import pictures
from rapidbm.cli.main import main
from rapidbm.data.catalogue import is_file, load
from rapidbm.data.tables import read_table, write_table
from rapidbm.errors import InputError
from rapidbm.random import stream


@pytest.mark.parametrize(
    "text",
    [
        "0,1,1\n1,0,0\n",
        "0;1;1\r\n1;0;0\r\n",
        "0\t1\t1\n1\t0\t0\n",
        "0 1 1\n1  0 0\n",
        '\n"0","1", "1"\n\n1,0,0\n\n',
        "0.0,1.0,1e0\n1,0,0",
        "False,true,YES\nTRUE,no,false\n",
        "\ufeff0,1,1\n1,0,0\n",
        "0,0;1,0;1,0\n1;0;0\n",
        "0,0\t1,0\t1,0\n1\t0\t0\n",
        "# by hand, in May\n#\n0,1,1\n1,0,0\n",
    ],
)
def test_ways_to_write_a_table(tmp_path, text):
    (tmp_path / "a.txt").write_text(text, newline="")
    values, names = read_table(tmp_path / "a.txt")
    assert values.tolist() == [[0, 1, 1], [1, 0, 0]]
    assert names == ()


@pytest.mark.parametrize("first", ["a;b c;d", '"a";"b c";"d"', 'a; "b c" ;d'])
def test_names_of_columns(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"{first}\n0;1;1\n1;0;0\n")
    values, names = read_table(tmp_path / "a.csv")
    assert (names, values.shape) == (("a", "b c", "d"), (2, 3))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_names_in_the_encodings_of_spreadsheets(tmp_path, encoding):
    (tmp_path / "a.csv").write_text("größe,b\n0,1\n1,0\n", encoding=encoding)
    assert read_table(tmp_path / "a.csv")[1] == ("größe", "b")


@pytest.mark.parametrize("first", ["0,1,2", "1,2,3"])
def test_columns_that_are_counted_have_these_names(tmp_path, first):
    (tmp_path / "a.csv").write_text(f"{first}\n0,1,1\n1,0,0\n")
    values, names = read_table(tmp_path / "a.csv")
    assert (",".join(names), values.tolist()) == (first, [[0, 1, 1], [1, 0, 0]])


def test_a_cell_may_hold_the_separator_in_quotes(tmp_path):
    (tmp_path / "a.csv").write_text('"x, y";z\n1;0\n0;1\n')
    assert read_table(tmp_path / "a.csv")[1] == ("x, y", "z")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n0,1\n1,\n", r"line 3, column 2 \('b'\): a value is missing \(''\); fill it in, or leave"),
        ("0,1\n?,1\n", r"line 2, column 1: a value is missing \('\?'\)"),
        ("0,1\n1,nan\n", r"line 2, column 2: a value is missing \('nan'\)"),
        (
            "a,b\n0,1\n1,red\n",
            r"line 3, column 2 \('b'\): a table holds numbers .* not 'red'; make",
        ),
        ("0,1\n\n1,0,1\n", "same number of columns in every row: line 3 has 3, those before 2"),
        ("a,b,c\n1,0\n", "line 2 has 2, those before 3"),
        (",0,1,2\n0,1,0,1\n", r"line 1, column 1: this line names .* index=False"),
        ("a,age\n0,44\n1,7\n", r"which 1 of 2 do not: 'age' \(the first of them holds 7, 44\); thres"),
        ("0,44\n1,7\n", r"which 1 of 2 do not: 2 "),
        (",a,b\n0,1,0\n1,0,0\n", r"line 1, column 1: this line names .* index=False"),
        ("a,,b\n0,1,0\n", "line 1, column 2: this line names the columns, but for this one"),
        (",1,0\n0,1,0\n", r"line 1, column 1: a value is missing \(''\)"),
        ("a,b\n", "no row of text"),
        ("", "no row of text"),
        ('0,"1\n' + "1" * 2**21, "is no table of text: field larger than"),
    ],
)
def test_tables_that_are_none(tmp_path, text, told):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        read_table(tmp_path / "a.csv")


def test_written_and_read_again(tmp_path):
    values = np.array([[0, 1], [1, 1]], dtype=np.int8)
    (tmp_path / "a.csv").write_bytes(write_table(values, ("x, y", "z")))
    again, names = read_table(tmp_path / "a.csv")
    assert np.array_equal(again, values)
    assert names == ("x, y", "z")


def test_named_columns_make_a_table_of_what_could_be_an_image(tmp_path):
    bits = np.random.default_rng(0).integers(0, 2, (20, 9))
    for name, names in (("a.data", ()), ("b.tsv", tuple("abcdefghi"))):
        (tmp_path / name).write_bytes(write_table(bits, names))
        assert is_file(name)
        data = load(tmp_path / name, valid=0.2)
        assert data.shape == ((1, 9) if names else (3, 3))
        assert data.columns == names


def test_samples_and_reconstructions_as_tables(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    bits = np.random.default_rng(0).integers(0, 2, (40, 4))
    (tmp_path / "my.csv").write_bytes(write_table(bits, ("a", "b", "c", "日本")))  # no glyphs
    small = ["--hidden", "3", "--patterns", "2", "--epochs", "1", "--device", "cpu"]
    commands = [
        ["train", "my.csv", *small, "--out", "R"],
        ["sample", "R", "--count", "5", "--out", "s.csv"],
        ["sample", "R", "--count", "5"],
        ["reconstruct", "R", "--out", "f.csv"],
    ]
    for words in commands:
        monkeypatch.setattr("sys.argv", ["rapidbm", *words])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == 0, capfd.readouterr().err
    out, err = capfd.readouterr()
    assert "my: 32 rows to train, 8 to test" in out
    assert ", 1 epoch →" in out
    assert "of the unknown cells are wrong" in out
    assert "Glyph" not in err
    with open("s.csv") as file:
        first, *rows = csv.reader(file)
    assert first == ["a", "b", "c", "日本"]
    assert len(rows) == 5
    assert {cell for row in rows for cell in row} <= {"0", "1"}
    assert read_table(tmp_path / "f.csv")[1] == ("a", "b", "c", "日本")


def test_an_ending_in_capitals(tmp_path):
    (tmp_path / "A.CSV").write_text("a,b\n0,1\n1,0\n1,1\n")
    assert is_file("A.CSV")
    assert load(tmp_path / "A.CSV").columns == ("a", "b")


@pytest.mark.parametrize("shape", [(1, 5), (5, 1)])
def test_rows_before_and_after_are_tables_side_by_side(shape):
    rows = torch.randint(2, (6, 5), generator=stream(0)) * 2 - 1
    pairs = (("original", rows), ("given", rows * 0), ("filled in", rows))
    figure = pictures.comparison_figure(pairs, shape, "abcde")
    assert [axes.get_title() for axes in figure.axes] == ["original", "given", "filled in"]
    for axes in figure.axes:
        assert axes.images[0].get_array().shape == (6, 5)
        assert [label.get_text() for label in axes.get_xticklabels()] == list("abcde")
    images = pictures.comparison_figure((("a", torch.ones(3, 4)),) * 2, (2, 2))
    assert images.axes[0].images[0].get_array().shape != (3, 4)


def test_a_table_is_drawn_as_one():
    spins = torch.randint(2, (30, 5), generator=stream(0)) * 2 - 1
    figure = pictures.image_figure(spins, (1, 5), names="abcde")
    axes = figure.axes[0]
    assert axes.images[0].get_array().shape == (30, 5)
    assert [label.get_text() for label in axes.get_xticklabels()] == list("abcde")
    many = pictures.image_figure(torch.ones(3, 100), (1, 100), names=["x"] * 100).axes[0]
    assert not many.axison
