"""How long one waits for the studio, and what looking costs a training. In a real Chromium.

    python -m benchmarks studio --repeats 3 --out studio.json

    picture   from the command to a second, different picture of the embedded machine's 64 chains
    point     from a click on Train (bars4) to the first point of a curve
    frames    pictures a second of the 64 chains, over five seconds
    β         from a move of the slider to a picture drawn at the new β, the slowest and the middle of 20
    cost      a training on the page, watched, over the same training by the command: seconds of the whole
              training in `run.json` ("wall"), alternating, the minima

Each is measured `repeats` times and the best is told, with the load of the machine at the beginning.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .running import option_parser, write

FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update")  # fmt: skip
TRAININGS = {
    "bars4, 20 replicas": ("bars4", {"replicas": 20}),
    "digits": ("digits", {"epochs": 6}),
}
SLIDERS = {"replicas": 100, "epochs": 3000}  # from 1 to so many, by their logarithm
MOVES = 20
STAGE = "document.querySelector('.dream-stage canvas')"
MOVE = """async (share) => {
  const input = document.querySelector('input[name=beta]');
  const began = performance.now();
  input.value = share;
  input.dispatchEvent(new Event('input', { bubbles: true }));
  const wanted = `β = ${input.number.toFixed(2)}`;
  while (!document.querySelector('.dream-stage canvas').ariaLabel.endsWith(wanted)) {
    await new Promise(requestAnimationFrame);
    if (performance.now() - began > 10000) break;
  }
  return performance.now() - began;
}"""


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, float]]:
    """The address of a studio, and when its command was given."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "rapidbm", "studio", str(folder), "--no-browser", "--json"]
    with subprocess.Popen([*command, "--port", "0"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"], began
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def until(look: Callable[[], Any], seconds: float = 120.0) -> Any:
    end = time.perf_counter() + seconds
    while not (found := look()):
        if time.perf_counter() > end:
            raise TimeoutError("the page did not get there")
        time.sleep(0.005)
    return found


def first_picture(browser: Any) -> float:
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as (address, began):
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(address)
        drawn = f"() => {STAGE} && {STAGE}.width > 1 ? {STAGE}.toDataURL() : ''"
        first = until(lambda: page.evaluate(drawn))
        until(lambda: page.evaluate(drawn) != first)
        seconds = time.perf_counter() - began
        page.close()
    return seconds


def first_point(browser: Any, address: str) -> float:
    page = opened(browser, address, "play")
    button = page.get_by_role("button", name="Train", exact=True)
    page.locator(".choices input[name=rate]").wait_for()
    began = time.perf_counter()
    button.click()
    until(lambda: page.evaluate("() => document.querySelectorAll('.curves .dot').length > 0"))
    seconds = time.perf_counter() - began
    page.get_by_role("button", name="Stop").click()
    page.close()
    return seconds


def opened(browser: Any, address: str, view: str) -> Any:
    """A page that has seen nothing before."""
    page = browser.new_context(viewport={"width": 1400, "height": 900}).new_page()
    page.goto(address)
    page.get_by_role("button", name="No, thanks").click()
    page.evaluate(f"() => {{ location.hash = '#/{view}'; }}")
    return page


def dream(browser: Any, address: str) -> dict[str, float]:
    page = opened(browser, address, "dream")
    until(lambda: page.evaluate("() => Number(document.documentElement.dataset.fps) > 0"))
    rates = []
    for _ in range(5):
        time.sleep(1.0)
        rates.append(float(page.evaluate("() => document.documentElement.dataset.fps")))
    waits = sorted(page.evaluate(MOVE, 0.2 + 0.6 * (i % 7) / 7) / 1000 for i in range(MOVES))
    page.close()
    return {
        "frames a second": sum(rates) / len(rates),
        "β, slowest (s)": waits[-1],
        "β, middle (s)": waits[MOVES // 2],
    }


def walls(page: Any, folder: Path, dataset: str, chosen: dict[str, Any]) -> tuple[float, float]:
    """Seconds of the training on the page and by the command."""
    page.locator(f".chip[data-name={dataset}]").click()
    time.sleep(1.0)  # the form shows the recipe
    for name, value in chosen.items():
        share = math.log(value) / math.log(SLIDERS[name])
        page.locator(f".choices input[name={name}]").fill(f"{share:.3f}")
    time.sleep(1.0)
    page.get_by_role("button", name="Train", exact=True).click()
    page.locator(".panel .badge[data-status=running]").wait_for()
    run = page.locator(".panel h3").text_content()
    until(lambda: status(folder / run) == "finished", 1200)
    words = [f"--{name}={value}" for name, value in chosen.items()]
    out = folder / f"{run}-command"
    subprocess.run(
        [sys.executable, "-m", "rapidbm", "train", dataset, *words, "--out", str(out)],
        check=True,
        capture_output=True,
    )
    both = [json.loads((path / "run.json").read_text()) for path in (folder / run, out)]
    assert both[0]["recipe"] == both[1]["recipe"], "the two trainings differ"
    return float(both[0]["wall"]), float(both[1]["wall"])


def status(folder: Path) -> str:
    try:
        return str(json.loads((folder / "run.json").read_text())["status"])
    except (OSError, ValueError):
        return ""


def run(words: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    from playwright.sync_api import sync_playwright

    parser = option_parser(__name__, __doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(words)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("no Chromium here; `make chromium` installs it")
    found: dict[str, dict[str, float]] = {"machine": {"load before": os.getloadavg()[0]}}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        found["waits"] = {"picture (s)": min(first_picture(browser) for _ in range(asked.repeats))}
        with tempfile.TemporaryDirectory() as name, served(Path(name)) as (address, _):
            points = [first_point(browser, address) for _ in range(asked.repeats)]
            found["waits"]["point (s)"] = min(points)
            found["dream"] = dream(browser, address)
            page = opened(browser, address, "play")
            page.locator(".choices input[name=rate]").wait_for()
            for title, (dataset, chosen) in TRAININGS.items():
                pairs = [walls(page, Path(name), dataset, chosen) for _ in range(asked.repeats)]
                studio, command = (min(column) for column in zip(*pairs, strict=True))
                row = {"page (s)": studio, "command (s)": command, "ratio": studio / command}
                found[f"cost: {title}"] = row
            browser.close()
    found["machine"]["load after"] = os.getloadavg()[0]
    found["machine"]["processors"] = float(os.cpu_count() or 0)
    write(asked.out, found)
    return found
