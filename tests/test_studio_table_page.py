"""The studio's view of tables in a real browser: bars that are held, rows, scores, gaps, and files of
them; what columns are is confirmed before a training. Names and cells are text, whatever they say."""

import csv
import json
import urllib.parse

import pytest

from rapidbm.runs.run import Run
from studios import Served
from test_studio_tables import TAG, command, csv_names, written
from visits import browses


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio") / "runs"
    folder.mkdir()
    table = tmp_path_factory.mktemp("tables") / "table.csv"
    for _ in Run.create(folder / "run", written(table)).go():
        pass
    served = Served(folder)
    served.table = table
    yield served
    served.end()


@pytest.fixture
def table(visit):
    found = visit()
    found.go("table", machine="run")
    found.page.locator(".value-bar").first.wait_for()
    return found


def bar(found, column, text):
    card = found.page.locator(".column", has=found.page.get_by_role("heading", name=column, exact=True))
    return card.locator(".value-bar", has_text=text)


@browses
def test_a_bar_that_is_clicked_is_held_and_the_others_follow(table):
    found = table
    words = found.page.locator(".holding")
    status = found.page.locator("section[aria-label=Columns] p[role=status]")
    assert "Nothing is held" in status.text_content()
    red = bar(found, "colour", "red")
    before = red.locator(".bar-share").text_content()
    assert before != "100 %"
    red.click()
    status.get_by_text("of all rows are like that").wait_for()
    assert red.get_attribute("aria-pressed") == "true"
    assert red.locator(".bar-share").text_content() == "100 %"
    assert set(found.page.locator(".rows tbody tr td:nth-child(2)").all_text_contents()) == {"red"}
    bar(found, "length", "1.0 to 1.5").click()
    bar(found, "length", "2.0 to 2.5").click()  # the range grows
    words.get_by_text("length: 1 to 2.5").wait_for()
    assert json.loads(urllib.parse.parse_qs(found.page.url.split("?")[-1])["held"][0])[0]["values"] == [
        "red"
    ]
    found.page.reload()
    words.get_by_text("length: 1 to 2.5").wait_for()
    found.button("Let all go").click()
    status.get_by_text("Nothing is held").wait_for()
    assert bar(found, "colour", "red").locator(".bar-share").text_content() == before


@browses
def test_names_and_words_are_text(table):
    found = table
    names = csv_names(found.studio.table.parent)
    assert TAG in names
    assert found.page.locator(".column h4").all_text_contents() == names
    bar(found, TAG, TAG).click()
    found.page.locator(".held", has_text=TAG).wait_for()
    found.button("Find unusual rows").click()
    found.page.get_by_text("The least usual of 60 rows").wait_for()
    assert found.page.locator("main img").count() == 0  # and `visit` fails at any dialog or complaint


@browses
def test_a_row_is_pasted_scored_and_its_gap_filled(table):
    found = table
    inputs = found.page.locator(".row-form input, .row-form select")
    inputs.nth(1).focus()
    found.page.evaluate(
        """text => {
          const data = new DataTransfer();
          data.setData("text", text);
          document.activeElement.dispatchEvent(
            new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
        }""",
        "BLUE\t4.9\t1\ta\t",
    )
    assert inputs.nth(0).input_value() == "blue"
    notes = found.page.locator(".cell-note")
    found.until("() => document.querySelectorAll('.cell-note')[4].textContent.startsWith('likely')")
    assert notes.nth(0).text_content().startswith("log p −")
    assert found.page.locator(".cell-note.unusual").count() == 1
    found.page.get_by_text("This row is more usual than").wait_for()
    inputs.nth(1).fill("4.9 mm")
    found.page.get_by_text("holds numbers, and '4.9 mm' is none").wait_for()


@browses
def test_samples_scores_and_filled_tables_are_saved_as_the_command_writes_them(table, tmp_path):
    found = table
    run = found.studio.folder / "run"
    command("sample", run, "--given", "colour=red", "--count", 50, "--out", tmp_path / "samples.csv")
    command("score", run, found.studio.table, "--out", tmp_path / "scores.csv")
    command("impute", run, found.studio.table, "--out", tmp_path / "filled.csv")
    bar(found, "colour", "red").click()
    found.page.get_by_text("of all rows are like that").wait_for()
    found.page.locator(".save-rows input").fill("50")
    for name, button in (
        ("samples", "Save rows as CSV"),
        ("scores", "Save scores as CSV"),
        ("filled", "Save filled table as CSV"),
    ):
        with found.page.expect_download() as download:
            found.button(button).click()
        download.value.save_as(tmp_path / f"page-{name}.csv")
        rows = [
            list(csv.reader((tmp_path / f"{at}{name}.csv").read_text().splitlines()))
            for at in ("", "page-")
        ]
        assert rows[0] == rows[1]
        assert len(rows[0]) > 50
    found.button("Fill the gaps").click()
    found.page.get_by_text("4 gaps in 3 rows of 60").wait_for()
    assert found.page.locator(".rows td.filled").count() == 4


def test_a_table_is_given_to_the_page_alone(tmp_path):
    with_run = tmp_path / "runs"
    with_run.mkdir()
    for _ in Run.create(with_run / "run", written(tmp_path / "table.csv")).go():
        pass
    studio = Served(with_run)
    try:
        path = "/table?asked="
        asked = urllib.parse.quote(json.dumps({"machine": "run", "what": "scores"}))
        assert studio.request("GET", path + asked, known=False)[0] == 403
        status, headers, body = studio.request("GET", path + asked)
        assert (status, headers["content-security-policy"]) == (200, "sandbox")
        assert headers["content-disposition"].startswith("attachment")
        assert body.startswith(b"row,log_p,log_p_from,log_p_to,least_probable")
        assert studio.request("GET", path + "{")[0] == 400
        for wrong in (
            {"machine": "../run"},
            {"machine": "run", "what": "scores", "file": "upload:../x.csv"},
        ):
            status, _, body = studio.request("GET", path + urllib.parse.quote(json.dumps(wrong)))
            assert status == 422
            assert str(tmp_path) not in body.decode()
    finally:
        studio.end()


@browses
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_the_view_of_tables_fits_and_its_targets_are_large_enough(visit, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = visit(width=width, scheme=scheme)
    found.go("table", machine="run")
    bar(found, "colour", "red").click()
    found.page.get_by_text("of all rows are like that").wait_for()
    found.button("Find unusual rows").click()
    found.page.get_by_text("The least usual of").wait_for()
    assert not found.overflows()
    assert found.small_targets() == []
    assert found.covered_targets() == []
    told = axe.Axe().run(found.page).response
    serious = [v for v in told["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, [(v["id"], v["nodes"][0]["html"]) for v in serious]


@browses
@pytest.mark.parametrize(
    ("view", "given", "ready", "told"),
    [
        ("table", {"machine": "run"}, ".value-bar", "red"),
        ("compare", {}, "tbody tr", "finished"),
        ("look", {"machine": "specimen:retrieval"}, ".valley", "It remembers few states"),
    ],
)
def test_a_view_is_saved_as_one_page_that_runs_nothing(
    visit, browser, tmp_path, view, given, ready, told
):
    found = visit()
    found.go(view, **given)
    found.page.locator(ready).first.wait_for()
    found.page.get_by_text(told).first.wait_for()
    with found.page.expect_download() as download:
        found.button("Save this view").click()
    path = tmp_path / "view.html"
    download.value.save_as(path)
    text = path.read_text()
    assert "<script" not in text
    assert "<button" not in text
    assert "default-src 'none'" in text
    assert TAG not in text  # it is escaped
    asked, complaints = [], []
    page = browser.new_page()
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))
    page.goto(path.as_uri())
    page.get_by_text(told).first.wait_for()
    assert page.locator("img[onerror]").count() == 0
    if view == "table":
        assert page.get_by_role("heading", name=TAG).count() == 1
    page.screenshot(path=tmp_path / f"{view}.png", full_page=True)
    page.close()
    assert [url for url in asked if not url.startswith(("data:", "file:"))] == []
    assert complaints == []
