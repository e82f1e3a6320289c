"""The studio in a real browser, Debian's Chromium through Playwright: what a visitor does, by mouse, by
finger and by keyboard, at both widths and in both colour schemes. Where there is no Chromium these tests
are skipped; `make chromium` installs it where that can be."""

import json
import re
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rapidbm.studio
from rapidbm.cli.main import app
from rapidbm.runs.recipe import Recipe
from rapidbm.runs.run import Run
from studios import Served
from visits import browses

PAGE = Path(rapidbm.studio.__file__).parent / "page"
STAMPED = "bars4-pid-20261118-053908"
TAG = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio") / "runs"
    recipe = Recipe.made("bars4", {"hidden": (30,), "patterns": 4, "epochs": 3, "replicas": 3})
    for _ in Run.create(folder / TAG, recipe).go():
        pass
    judged = Recipe.made(
        "bars4", {"hidden": (8,), "patterns": 2, "epochs": 2, "metrics": ("log_likelihood",)}
    )
    for _ in Run.create(folder / STAMPED, judged).go():
        pass
    rows = [f"{'red' if i % 3 else 'blue'},{i * 0.37 % 5:.2f},{'abc'[i % 3]}" for i in range(60)]
    table = tmp_path_factory.mktemp("tables") / "mixed.csv"
    table.write_text("\n".join(["colour,length,kind", *rows]) + "\n")
    chosen = {"hidden": (6,), "patterns": None, "negative": "cd", "epochs": 1, "replicas": 1,
              "metrics": (), "projection": "none", "sweeps": 1}  # fmt: skip
    for _ in Run.create(folder / "mixed", Recipe.made(str(table), chosen)).go():
        pass
    served = Served(folder)
    yield served
    served.end()


def small(found, **chosen):
    """The form with a machine that trains in a moment."""
    for name, value in {"seed": 0, **chosen}.items():
        box = found.page.locator(f".choices.side-a input[name={name}]")
        found.page.locator(".choices.side-a details").evaluate("it => { it.open = true; }")
        box.fill(str(value))
        box.press("Tab")


# -- Dream --------------------------------------------------------------------------------------------


@browses
def test_it_dreams_and_completes_what_is_drawn(visit):
    found = visit()
    found.dreams()
    board = found.page.locator("canvas.easel")
    box = board.bounding_box()
    mouse = found.page.mouse
    mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.2 * box["height"])
    mouse.down()
    mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.2 * box["height"], steps=6)
    mouse.up()
    found.until("() => Number(document.querySelector('.easel').dataset.held) >= 5")
    # All chains hold them: the colour of held pixels is in every tile.
    found.until(
        """() => {
          const canvas = document.querySelector('.dream-stage canvas');
          const { width, height } = canvas;
          const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
          const tiles = new Set();
          for (let i = 0; i < pixels.length; i += 4) {
            if (pixels[i] === 180 && pixels[i + 1] === 83 && pixels[i + 2] === 15) {
              const [x, y] = [(i / 4) % width, Math.floor(i / 4 / width)];
              tiles.add(8 * Math.floor(8 * y / height) + Math.floor(8 * x / width));
            }
          }
          return tiles.size === 64;
        }"""
    )
    found.button("Let all go").click()
    assert found.page.evaluate("() => document.querySelector('.easel').dataset.held") == "0"
    found.button("Hold the upper half").click()
    assert found.page.evaluate("() => document.querySelector('.easel').dataset.held") == "392"


@browses
@pytest.mark.slow
def test_a_finger_draws_too(visit):
    found = visit(width=390, has_touch=True)
    found.dreams()
    board = found.page.locator("canvas.easel")
    board.scroll_into_view_if_needed()
    box = board.bounding_box()
    found.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    found.until("() => Number(document.querySelector('.easel').dataset.held) >= 1")


@browses
def test_sliders_starts_and_the_ladder(visit):
    found = visit()
    found.dreams()
    beta = found.page.locator("input[name=beta]")
    beta.focus()
    for _ in range(3):
        beta.press("PageDown")
    value = float(beta.get_attribute("aria-valuetext"))
    assert value < 0.6
    label = found.page.locator(".dream-stage .tiles canvas")
    found.until(
        "text => document.querySelector('.dream-stage canvas').ariaLabel.includes(text)", f"{value:.2f}"
    )
    assert "64 chains" in label.get_attribute("aria-label")
    found.go("dream", machine="specimen:retrieval")
    found.page.locator("select[aria-label='Start from patterns']").select_option("1")
    found.page.get_by_role("radio", name="Tempering").check()
    found.page.get_by_text(re.compile(r"Turn \d+:")).wait_for()
    found.go("dream", machine=TAG)
    found.page.get_by_text("16×30, K=4").wait_for()
    found.button("Pause").click()
    found.button("One sweep").click()
    found.button("Go on").click()


# -- Play ---------------------------------------------------------------------------------------------


@browses
def test_train_pause_step_go_on_change_the_rate_and_evaluate(visit, studio):
    found = visit(steady=True)
    found.go("play")
    small(found)
    found.page.locator(".choices.side-a input[name=hidden]").press("Home")
    found.page.locator(".choices.side-a input[name=epochs]").fill("0.5")  # the root of 3000
    found.until("() => !document.querySelector('.choices .note.bad:not([hidden])')")
    found.button("Train").click()
    found.until("() => document.querySelectorAll('.curves path.line').length >= 2")
    found.button("Pause").first.click()
    found.until_status(["paused"])
    at = int(re.search(r"update (\d+)", found.page.locator(".panel .numbers").first.text_content())[1])
    found.button("One step").click()
    found.until(
        "at => document.querySelector('.panel .numbers').textContent.includes(`update ${at} `)", at + 1
    )
    rate = found.page.locator(".panel input[name=live-rate]")
    rate.focus()
    rate.press("ArrowLeft")
    found.page.get_by_text("Rate changed:").wait_for()
    assert found.page.locator(".pictures canvas").count() == 4
    run = found.page.locator(".panel h3").get_attribute("title")
    found.page.locator(".panel select").first.select_option("0")
    found.button("Go on").first.click()
    found.until_status(["finished"])
    told = json.loads((studio.folder / run / "run.json").read_text())
    assert [change[0] for change in told["recipe"]["rate_changes"]] == [at + 1]
    done = CliRunner().invoke(app, ["evaluate", str(studio.folder / run), "--likelihood", "none"])
    assert done.exit_code == 0, done.output


@browses
@pytest.mark.slow
def test_a_reload_in_the_middle_finds_the_training_further_on(visit):
    found = visit(steady=True)
    found.go("play")
    found.page.locator(".choices.side-a input[name=hidden]").press("Home")
    found.button("Train").click()
    found.until("() => document.querySelectorAll('.curves path.line').length > 0")
    run = found.page.locator(".panel h3").get_attribute("title")
    points = "() => document.querySelector('.curves path.line')?.getAttribute('d').length ?? 0"
    before = found.page.evaluate(points)
    found.page.reload()
    found.until(f"before => ({points})() >= before", before)
    found.page.locator(f'.panel h3[title="{run}"]').wait_for()
    found.page.evaluate("() => { for (const one of window.sockets) one.close(); }")  # a closed laptop
    found.until("() => window.sockets.size === 2")
    found.page.locator("#link[data-state=open]").wait_for()
    found.button("Stop").click()
    found.until_status(["interrupted"])
    found.page.locator(".panel").get_by_role("button", name="Go on").click()
    found.until_status(["running", "finished"])  # as fast as it goes


@browses
@pytest.mark.slow
def test_two_machines_side_by_side(visit):
    found = visit()
    found.go("play")
    found.button("RAPID against CD").click()
    for side in "ab":
        found.page.locator(f".choices.side-{side} input[name=hidden]").press("Home")
        found.page.locator(f".choices.side-{side} input[name=epochs]").fill("0.3")
        found.page.locator(f".choices.side-{side} input[name=replicas]").fill("0.2")
    found.button("Train both").click()
    for number in (0, 1):
        found.until_status(["finished"], number)
    names = found.page.locator(".curves text.mark").all_text_contents()
    assert {"A test", "B test"} <= set(names)
    sides = found.page.locator(".panel")
    # Where they are laid out; on the way there, as they appear, they may be apart.
    tops = sides.evaluate_all("panels => panels.map(panel => panel.offsetTop)")
    lefts = sides.evaluate_all("panels => panels.map(panel => panel.offsetLeft)")
    assert len(tops) == 2
    assert tops[0] == tops[1]  # beside each other
    assert lefts[0] < lefts[1]
    assert "dense" in sides.nth(1).text_content()


GOOD = "a,b,c,d\n" + "".join(f"{i % 2},{i % 3 % 2},{i // 2 % 2},1\n" for i in range(20))
BAD = {
    "words.csv": b"a,b\nyes,maybe\n",
    "ragged.csv": b"0,1,0\n1,0\n",
    "levels.csv": b"0,1,2,3\n4,5,6,7\n",
    "truncated.npy": b"\x93NUMPY\x01\x00v\x00{'descr': '|i1'",
    "script.html": b"<script>alert(1)</script>",
}


@browses
def test_a_good_file_is_offered_and_five_bad_ones_are_refused_with_their_reasons(visit):
    found = visit()
    found.go("play")
    drop = found.page.locator("#drop-file")
    chips = found.page.locator(".chip")
    found.page.locator(".chip[data-name=bars4]").wait_for()
    before = chips.count()
    for name, content in BAD.items():
        drop.set_input_files({"name": name, "mimeType": "text/plain", "buffer": content})
        found.page.locator(".remark", has_text=name).wait_for()
    assert chips.count() == before
    assert all(text.startswith("Failed to load resource") for text in found.complaints)
    found.complaints.clear()  # the browser itself says that five uploads were refused
    drop.set_input_files({"name": "<b>good</b>.csv", "mimeType": "text/csv", "buffer": GOOD.encode()})
    found.page.locator(".chip[aria-pressed=true]", has_text="csv").wait_for()
    assert chips.count() == before + 1
    found.page.get_by_text("16 rows to train, 4 to test; 4 columns").wait_for()


def running_in_bar(found):
    return found.page.locator("#running a").count()


def stop_all(found):
    """Stops what runs, so that the next test begins with nothing."""
    while running_in_bar(found):
        count = running_in_bar(found)
        found.page.locator("#running a").first.click()
        found.page.locator(".panel").get_by_role("button", name="Stop").click()
        found.until("count => document.querySelectorAll('#running a').length < count", count)


@browses
def test_a_training_is_stopped_only_by_who_says_so(visit):
    found = visit(steady=True)
    found.go("play")
    stop_all(found)
    found.go("play", run=TAG)
    found.page.locator(".panel h3", has_text=TAG).wait_for()
    found.page.locator(".choices.side-a input[name=hidden]").press("Home")
    found.until("() => !document.querySelector('button.main.wide').disabled")
    found.button("Train").click()
    found.until("tag => document.querySelector('.panel h3')?.title !== tag", TAG)
    first = found.page.locator(".panel h3").get_attribute("title")
    assert f"run={first}" in found.page.url  # the stale address is gone
    found.page.reload()
    found.until_status(["running"])
    assert found.page.locator(".panel h3").get_attribute("title") == first
    # What is refused stops nothing, and is refused before anything is asked.
    found.page.locator(".chip[data-name=digits]").click()
    found.page.locator(".choices.side-a select").first.select_option("exact")
    found.until("() => document.querySelector('.choices.side-a select').value === 'exact'")
    found.page.get_by_text("1,438 images to train").wait_for()
    found.button("Train").click()
    remark = found.page.locator(".remark", has_text="exact")
    remark.wait_for()
    assert "--" not in remark.text_content()
    assert found.page.locator("dialog").count() == 0
    assert found.status() == "running"
    # Dense couplings take neither PID nor a projection.
    found.page.locator(".chip[data-name=bars4]").click()
    found.button("Usual settings").click()
    found.page.locator(".choices.side-a input[name=hidden]").press("Home")
    found.page.get_by_role("radio", name="dense").check()
    found.until("() => document.querySelectorAll('.choices option:disabled').length === 4")
    assert found.page.locator(".choices.side-a select").first.input_value() == "pcd"
    # One that runs is left alone if one says so, and stands in the bar of every view.
    found.button("Train").click()
    found.button("Cancel").click()
    assert running_in_bar(found) == 1
    found.button("Train").click()
    found.button("Let it go on in the background").click()
    found.until("() => document.querySelectorAll('#running a').length === 2")
    found.go("dream")
    assert running_in_bar(found) == 2
    other = visit()
    other.go("play")  # a second tab shows what runs, and stops nothing
    other.page.locator(".panel").wait_for()
    assert running_in_bar(other) == 2
    stop_all(found)


@browses
def test_choices_stay_with_other_data_and_what_differs_is_shown(visit):
    found = visit()
    found.go("play")
    found.page.locator(".chip[data-name=bars4]").wait_for()
    found.button("RA against dense").click()
    table = found.page.locator(".differences table")
    table.get_by_text("dense").wait_for()
    found.page.locator(".choices.side-a details").first.evaluate("it => { it.open = true; }")
    small(found, batch_size=7)
    table.get_by_text("Batch").wait_for()
    for data in ("digits", "bas6"):
        found.page.locator(f".chip[data-name={data}]").click()
        found.page.locator(f".chip[data-name={data}][aria-pressed=true]").wait_for()
        found.until("() => document.querySelector('.differences table')?.textContent.includes('Batch')")
        assert found.page.locator(".choices.side-a input[name=batch_size]").input_value() == "7"
        for words in ("dense", "RA, "):
            assert words in table.text_content()
    found.page.locator(".choices.side-b").get_by_role("button", name="Usual settings").click()
    found.button("Only one machine").click()
    assert not found.page.locator(".differences").is_visible()
    found.button("Add a second machine").click()
    found.page.get_by_text("A and B are the same").wait_for()


@browses
def test_a_hidden_tab_draws_nothing(visit):
    found = visit(steady=True)
    found.dreams()
    found.page.evaluate(
        """() => {
          window.pictures = 0;
          const read = new TextDecoder();
          for (const socket of window.sockets)
            socket.addEventListener("message", ({ data }) => {
              if (read.decode(new Uint8Array(data, 4, 60)).includes("dreamt")) window.pictures += 1;
            });
          window.look = (hidden) => {
            Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
            document.dispatchEvent(new Event("visibilitychange"));
          };
        }"""
    )
    found.until("() => window.pictures > 3")
    found.page.evaluate("() => window.look(true)")
    time.sleep(0.7)  # what was on its way has come
    before = found.page.evaluate("() => window.pictures")
    time.sleep(1)
    assert found.page.evaluate("() => window.pictures") == before
    found.page.evaluate("() => window.look(false)")
    found.until("before => window.pictures > before + 3", before)


@browses
def test_help_buttons_are_large_enough_for_a_finger(visit):
    found = visit(width=390)
    for view in ("play", "look"):
        found.go(view)
        found.page.locator(".tip > button").first.wait_for()
        sizes = found.page.evaluate(
            """() => [...document.querySelectorAll('.tip > button')].filter((it) => it.offsetParent)
              .map((it) => it.getBoundingClientRect())
              .map(({ width, height }) => Math.min(width, height))"""
        )
        assert min(sizes) >= 24


# -- Look, Compare, the tour --------------------------------------------------------------------------


@browses
def test_a_machine_with_other_units_than_spins_says_what_is_not_for_it(visit):
    found = visit()
    found.go("look", machine="mixed")
    assert (
        found.page.get_by_role("link", name="See it as a table").get_attribute("href")
        == "#/table?machine=mixed"
    )
    found.page.get_by_text("The theory behind it, of machines whose units are all ±1").click()
    found.until(
        "() => [...document.querySelectorAll('.card-state')]"
        ".filter((it) => it.textContent.includes('units are all ±1')).length === 6"
    )
    found.go("dream", machine="mixed")
    found.page.get_by_text("This machine is for a table").wait_for()
    found.dreams()
    assert not found.page.locator("canvas.easel").is_visible()


@browses
def test_runs_are_compared_by_measure_and_data(visit):
    found = visit()
    found.go("compare")
    groups = found.page.locator("tr.group")
    groups.first.wait_for()
    heads = "\n".join(groups.all_text_contents())
    assert "bars4 · log p, test: nats a row, higher is better" in heads
    assert "bars4 · Hamming distance, test: share of wrong pixels, lower is better" in heads
    assert "mixed · not measured yet" in heads
    title = "bars4, RBM 16×8 K=2, PID, 18 Nov 05:39:08"
    for name in (title, TAG):
        found.page.get_by_label(f"Draw {name}", exact=True).check()
    frames = found.page.locator(".frames figure")
    assert frames.count() == 2  # nats and distances have axes of their own
    assert title in "".join(frames.all_text_contents())


@browses
@pytest.mark.slow
def test_look_measures_and_saves_what_it_shows(visit, tmp_path):
    found = visit()
    found.go("look", machine="specimen:retrieval")
    figure = found.page.locator("figure", has=found.page.get_by_role("heading", name="Landscape"))
    figure.locator(".valley").first.wait_for()
    assert figure.locator(".valley").count() < 15
    for kind, start in (
        ("SVG", b"<svg"),
        ("PNG", b"\x89PNG"),
        ("CSV", b"what,"),
        ("JSON", b'{\n "name"'),
    ):
        figure.get_by_text("Save", exact=True).click()
        with found.page.expect_download() as download:
            figure.get_by_role("button", name=kind, exact=True).click()
        path = tmp_path / kind
        download.value.save_as(path)
        assert path.read_bytes().startswith(start)
    svg = (tmp_path / "SVG").read_text()
    assert "class=" not in svg  # it needs no style sheet
    assert "fill=" in svg
    found.page.get_by_text("The theory behind it").click()
    spectrum = found.page.locator("figure", has=found.page.get_by_role("heading", name="Spectrum"))
    spectrum.get_by_text("3 values beyond what random couplings have").wait_for()
    spectrum.get_by_role("button", name="What is Spectrum?").focus()
    found.page.get_by_text("those that stand out carry what was learned").wait_for()
    found.go("look", machine=TAG)
    likelihood = found.page.locator("figure", has=found.page.get_by_role("heading", name="Likelihood"))
    likelihood.get_by_text("Exact, over").wait_for()
    along = found.page.locator("figure", has=found.page.get_by_role("heading", name="Along the training"))
    along.get_by_role("button", name="Measure").click()
    along.locator("path.band").first.wait_for()


@browses
def test_a_run_whose_name_is_a_tag_is_text_everywhere(visit, tmp_path):
    found = visit()
    found.go("compare")
    row = found.page.locator("tbody tr", has_text=TAG)
    row.wait_for()
    assert row.locator("img").count() == 0
    row.get_by_role("checkbox").check()
    found.page.locator(".frames figure svg").first.wait_for()
    with found.page.expect_download() as download:
        row.get_by_role("link", name=re.compile("as one page")).click()
    download.value.save_as(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "&lt;img src=x" in text
    assert TAG not in text
    for view in ("dream", "look", "play"):
        found.go(view, **({"run": TAG} if view == "play" else {"machine": TAG}))
        found.until("() => document.querySelector('main').textContent.includes('<img src=x')")
        assert found.page.locator("main img").count() == 0


@browses
def test_the_table_of_runs_sorts(visit):
    found = visit()
    found.go("compare")
    found.page.locator("tbody tr").first.wait_for()
    found.button("Run").click()
    heading = found.page.locator("th[aria-sort=ascending]")
    assert heading.text_content().startswith("Run")
    for group in found.page.locator("tbody").all():
        names = group.locator("th[scope=row]").all_text_contents()
        assert names == sorted(names, key=str.casefold)
    assert found.page.locator(".multiple").count() >= 1


@browses
def test_runs_are_filtered_named_noted_and_deleted_when_one_says_so(visit, studio):
    extra = Recipe.made("bars4", {"hidden": (5,), "patterns": 2, "epochs": 1, "replicas": 1})
    for _ in Run.create(studio.folder / "spare", extra).go():
        pass
    found = visit()
    found.go("compare")
    rows = found.page.locator("tbody tr[data-run]")
    rows.first.wait_for()
    count = rows.count()
    found.page.get_by_label("Show runs with").fill("bars4 K=2 5")
    found.page.get_by_text(f"2 of {count} runs").wait_for()
    found.page.get_by_label("Show runs with").fill("spare")
    found.button("Name spare").click()
    found.page.get_by_label("Name", exact=True).fill(TAG)
    found.page.get_by_label("Note", exact=True).fill(f"note {TAG}")
    found.button("Keep").click()
    found.page.locator(".note-of-run", has_text=TAG).wait_for()
    assert rows.count() == 1  # it is still found by the name of its folder
    assert rows.locator("img").count() == 0
    found.button(f"Delete {TAG}").click()
    found.page.get_by_role("dialog").get_by_text("This cannot be taken back").wait_for()
    found.button("Cancel").click()
    assert (studio.folder / "spare").is_dir()
    found.button(f"Delete {TAG}").click()
    found.button("Delete it").click()
    found.page.get_by_text(f"0 of {count - 1} runs").wait_for()
    assert not (studio.folder / "spare").exists()


@browses
@pytest.mark.slow
def test_the_tour_teaches_by_doing(visit):
    found = visit(tour=True, steady=True)
    found.dreams()
    found.button("Show me").click()
    for number, act in enumerate(
        ("Heat it for me", "Hold some for me", "Train for me", "Train both for me", "Show it to me"), 1
    ):
        found.page.get_by_role("heading", name=re.compile(f"^{number}\\. ")).wait_for()
        if act.startswith("Train"):
            found.until("() => document.querySelector('.choices input[name=rate]')")
            found.until("() => [...document.querySelectorAll('.chip')].length > 3")
        if act == "Train both for me":  # the tour waits ten seconds for this button, a test for longer
            found.button("RAPID against CD").dispatch_event("click")  # the tour's box lies over it
            found.button("Train both").wait_for()
        found.button(act).click()
        if act == "Train both for me":  # the training of the step before still runs
            found.button("Stop it and train").click()
        found.page.locator(".tour-task.done").wait_for()
        found.button("Next" if number < 5 else "Done").click()
    assert not found.page.locator("#tour").is_visible()
    found.page.reload()
    found.page.get_by_role("heading", name="Look").wait_for()
    assert not found.page.locator("#tour").is_visible()
    found.go("play")
    for number in (0, 1):
        found.until_status(["running"], number)
        found.page.locator(".panel").nth(number).get_by_role("button", name="Stop").click()
        found.until_status(["interrupted"], number)


# -- manners ------------------------------------------------------------------------------------------

VIEWS = ("dream", "play", "table", "look", "compare")


@browses
@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        pytest.param(390, "light", marks=pytest.mark.slow),
        (390, "dark"),
        (1400, "light"),
        pytest.param(1400, "dark", marks=pytest.mark.slow),
    ],
)
def test_nothing_overflows_and_axe_finds_nothing_serious(visit, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = visit(width=width, scheme=scheme)
    for view in VIEWS:
        found.go(view, **({"machine": "specimen:retrieval"} if view in ("dream", "look") else {}))
        ready = {"dream": ".dream-stage canvas[width]", "play": ".choices input[name=rate]",
                 "look": ".valley", "compare": "tbody tr", "table": ".value-bar"}[view]  # fmt: skip
        found.page.locator(ready).first.wait_for()
        assert not found.overflows(), view
        assert found.small_targets() == [], view
        assert found.covered_targets() == [], view
        told = axe.Axe().run(found.page).response
        assert len(told["passes"]) > 10
        serious = [v for v in told["violations"] if v["impact"] in ("serious", "critical")]
        assert not serious, [(v["id"], v["nodes"][0]["html"]) for v in serious]
    shade = found.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", shade)[:3])) > 384) is (scheme == "light")


@browses
@pytest.mark.slow
def test_by_keyboard_alone(visit):
    found = visit(tour=True, steady=True)
    page = found.page
    found.dreams()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.textContent") == "To the view"

    def tab_to(wanted, most=90):
        for _ in range(most):
            page.keyboard.press("Tab")
            if page.evaluate(f"() => Boolean(document.activeElement.matches({wanted!r}))"):
                outline = "getComputedStyle(document.activeElement).outlineStyle"
                visible = page.evaluate(f"() => {outline} !== 'none'")
                assert visible, wanted
                return
        raise AssertionError(f"{wanted} cannot be reached by the keyboard")

    tab_to("input[name=beta]")
    before = page.locator("input[name=beta]").get_attribute("aria-valuetext")
    page.keyboard.press("ArrowLeft")
    assert page.locator("input[name=beta]").get_attribute("aria-valuetext") != before
    tab_to("canvas.easel")
    for key in ("ArrowDown", "ArrowRight", " ", "e", "ArrowRight", " "):
        page.keyboard.press(key)
    assert page.evaluate("() => document.activeElement.dataset.held") == "2"
    assert "held down" in page.locator("canvas.easel").get_attribute("aria-label")
    page.evaluate("() => document.querySelector('a[data-view=play]').focus()")
    page.keyboard.press("Enter")
    page.locator(".choices input[name=rate]").wait_for()
    tab_to("button.main.wide")
    page.keyboard.press("Enter")
    page.locator(".panel .badge").wait_for()
    found.until_status(["running"])
    page.locator(".panel").get_by_role("button", name="Stop").press("Enter")
    found.until_status(["interrupted"])


@browses
def test_the_scheme_can_be_chosen(visit):
    found = visit()
    shade = "() => getComputedStyle(document.body).backgroundColor"
    light = found.page.evaluate(shade)
    button = found.page.locator("#theme")
    button.click()
    assert found.page.evaluate(shade) == light
    button.click()
    assert found.page.evaluate(shade) != light
    assert "dark" in button.get_attribute("aria-label")


@browses
@pytest.mark.slow
def test_a_hundred_replicas_are_drawn_and_steered(visit):
    found = visit(steady=True)
    found.go("play")
    found.page.locator(".choices.side-a input[name=hidden]").press("Home")
    found.page.locator(".choices.side-a input[name=replicas]").fill("1")  # the right end, 100
    found.button("Train").click()
    found.until("() => document.querySelector('.panel canvas[aria-label*=\"100 replicas\"]')")
    found.button("Pause").click()
    found.until_status(["paused"])
    found.page.locator(".panel").get_by_role("button", name="Stop").click()
    found.until_status(["interrupted"])


# -- without a browser --------------------------------------------------------------------------------


def test_the_parts_of_the_page_ask_nobody_else():
    parts = [path for path in PAGE.rglob("*") if path.is_file()]
    assert {path.suffix for path in parts} <= {".html", ".css", ".js", ".svg"}
    for path in parts:
        text = path.read_text()
        assert not re.findall(r"https?://(?!www\.w3\.org/)", text), path
        assert "innerHTML" not in text
        assert "insertAdjacentHTML" not in text
        assert not re.search(r"\beval\(|new Function|document\.write", text)
    for path in PAGE.rglob("*.html"):
        assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|<style", path.read_text()), path


def test_every_word_that_is_explained_has_a_place_on_the_page_of_words():
    words = set(re.findall(r"^  (\w+): \[", (PAGE / "parts" / "words.js").read_text(), re.MULTILINE))
    places = set(re.findall(r'<section id="(\w+)">', (PAGE / "words.html").read_text()))
    assert words == places
    used = {
        w
        for path in PAGE.rglob("*.js")
        for w in re.findall(r'(?:tip\(|word: |meter\("\w+", )"(\w+)"', path.read_text())
    }
    assert used <= words
    docs = set(re.findall(r"docs/[\w/]+\.md", (PAGE / "words.html").read_text()))
    assert (
        all((PAGE.parents[3] / path).is_file() for path in docs)
        or not (PAGE.parents[3] / "docs").is_dir()
    )


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_text_has_contrast_in_both_schemes():
    style = (PAGE / "style" / "base.css").read_text()
    pairs = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", style))
    for scheme in (0, 1):
        shades = {name: pair.split(", ")[scheme] for name, pair in pairs.items()}
        for ink in ("ink", "soft", "link", "a", "b", "c", "d", "warn", "bad"):
            for ground in ("paper", "ground"):
                light, dark = sorted((luminance(shades[ink]), luminance(shades[ground])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground, scheme)


def test_the_page_is_all_that_a_browser_gets():
    """Every import of a script is of a part that is there."""
    for path in PAGE.rglob("*.js"):
        for name in re.findall(r'(?:from|import\()\s*"(\.[^"]+)"', path.read_text()):
            assert (path.parent / name).is_file(), (path, name)
