"""A newcomer's path through the studio, driven in a real browser: a table with gaps is dropped, what its
columns are is confirmed, a machine is trained within a given time, a value is held, gaps are filled, and
the file is saved. No word of physics is needed on the way."""

import csv
import os
import re
import time
from pathlib import Path

import pytest

from studios import Served
from visits import browses

DATA = Path(os.environ.get("RAPIDBM_DATA", ""))
PHYSICS = re.compile(
    r"glass|magnet|spin\b|β|Gibbs|temper|energy|contrastive|negative phase|replica|overlap|RBM|PCD"
)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("newcomer") / "runs")
    yield served
    served.end()


@pytest.fixture
def penguins(tmp_path):
    """344 penguins of Palmer station, with 19 gaps, or where they are not at hand a table like theirs."""
    known = DATA / "tables" / "penguins.csv"
    if known.is_file():
        text = known.read_text()
    else:
        kinds = [("Adelie", "Torgersen", 190, 3700), ("Gentoo", "Biscoe", 217, 5000)]
        rows = [kinds[i % 2] for i in range(344)]
        lines = [
            f"{a},{b},{c + i % 9},{d + i % 700},{'' if i % 20 == 3 else 'MALE'}"
            for i, (a, b, c, d) in enumerate(rows)
        ]
        lines = [line.replace("MALE", "FEMALE") if i % 3 else line for i, line in enumerate(lines)]
        text = "\n".join(["species,island,flipper_length_mm,body_mass_g,sex", *lines]) + "\n"
    path = tmp_path / "penguins.csv"
    path.write_text(text)
    return path


def words_on(found):
    """What stands in the view and can be seen."""
    return found.page.locator("main").inner_text()


@browses
@pytest.mark.slow
def test_from_a_file_with_gaps_to_one_without(visit, studio, penguins, tmp_path):
    found = visit()
    page, seen = found.page, []
    found.go("play")
    page.locator(".chip[data-name=bars4]").wait_for()
    began = time.monotonic()
    page.locator("#drop-file").set_input_files(penguins)
    page.get_by_text(re.compile(r"^\d columns, \d+ gaps: what they are$")).wait_for()
    types = page.locator(".types li", has_text="species")
    types.get_by_text("3 categories, Adelie" if DATA.name else "two values").wait_for()
    page.locator(".types li", has_text="body_mass_g").get_by_text("whole number: integers").wait_for()
    page.get_by_label("Take body_mass_g as").select_option("real")
    page.locator(".types li", has_text="body_mass_g").get_by_text("number: real numbers").wait_for()
    seen.append(page.locator(".file-types").inner_text())
    found.button("These are right").click()
    page.get_by_label("Time to train").select_option("30s")
    seen.append(page.locator(".choices").inner_text())
    found.button("Train").click()
    page.get_by_text("Finding good settings").wait_for()
    found.until_status(["finished"])
    found.button("See it as a table").click()
    gentoo = page.locator(".column", has=page.get_by_role("heading", name="species")).get_by_role(
        "button", name="Gentoo"
    )
    gentoo.click()
    page.get_by_text("of all rows are like that").wait_for()
    assert set(page.locator(".rows tbody tr td:nth-child(2)").all_text_contents()) == {"Gentoo"}
    seen.append(words_on(found))
    found.button("Fill the gaps").click()
    page.get_by_text("What was filled is marked").wait_for()
    with page.expect_download() as download:
        found.button("Save filled table as CSV").click()
    download.value.save_as(tmp_path / "filled.csv")
    took = time.monotonic() - began
    print(f"{took:.0f} s")
    before = list(csv.DictReader(penguins.read_text().splitlines()))
    after = list(csv.DictReader((tmp_path / "filled.csv").read_text().splitlines()))
    assert len(after) == len(before) > 300
    assert not any(cell in ("", "NA") for row in after for cell in row.values())
    missing = ("", "NA")
    gaps = 0
    for one, other in zip(before, after, strict=True):
        for name, cell in one.items():
            gaps += cell in missing
            assert cell in missing or cell == other[name] or float(cell) == float(other[name])
    assert gaps > 10
    for words in seen:
        assert not PHYSICS.search(words), PHYSICS.search(words)
