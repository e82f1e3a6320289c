"""Films the studio in a real browser: writes docs/images/studio.webp, the README's moving picture.

    python docs/film.py [FILE]

Four scenes: chains that are heated and cooled, a stroke that is completed, a training, two landscapes.
"""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).parent / "images" / "studio.webp"
WIDE, TALL, SHOWN = 1180, 740, 826  # of the window, and of the picture in the end
PACE = 110  # milliseconds a frame
MOST = 2_000_000  # bytes
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-sync",
)


class Film:
    def __init__(self, page: Any) -> None:
        self.page, self.frames = page, list[Image.Image]()

    def shoot(self, count: int = 1, wait: float = 0.05) -> None:
        for _ in range(count):
            time.sleep(wait)
            picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
            self.frames.append(picture.resize((SHOWN, TALL * SHOWN // WIDE), Image.Resampling.LANCZOS))

    def hold(self, count: int) -> None:
        """The last frame, for longer."""
        self.frames += [self.frames[-1]] * count

    def write(self, path: Path) -> None:
        first, *rest = self.frames
        for quality in (60, 50, 40, 30):
            first.save(
                path,
                save_all=True,
                append_images=rest,
                duration=PACE,
                loop=0,
                quality=quality,
                method=6,
                minimize_size=True,
            )
            if path.stat().st_size < MOST:
                break
        print(f"{path}: {len(self.frames)} frames, {path.stat().st_size:,} bytes, quality {quality}")


def dream(film: Film) -> None:
    page = film.page
    film.shoot(10)
    for share in (0.5, 0.4, 0.3, 0.2, 0.15):
        slide(page, "beta", share)
        film.shoot(2)
    for share in (0.3, 0.45, 0.59):
        slide(page, "beta", share)
        film.shoot(2)
    film.shoot(8)
    box = page.locator("canvas.easel").bounding_box()
    place = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])  # noqa: E731
    page.mouse.move(*place(0.33, 0.2))
    page.mouse.down()
    for x, y in ((0.45, 0.2), (0.56, 0.2), (0.66, 0.21), (0.62, 0.32), (0.57, 0.42)):
        page.mouse.move(*place(x, y), steps=4)
        film.shoot()
    page.mouse.up()
    film.shoot(16)


def play(film: Film) -> None:
    page = film.page
    page.evaluate("() => { location.hash = '#/play'; }")
    page.locator(".choices input[name=rate]").wait_for()
    time.sleep(1.5)
    film.shoot(3)
    page.get_by_role("button", name="Train", exact=True).click()
    page.locator(".panel select").first.select_option("20")
    page.locator(".pictures canvas").first.wait_for()
    page.evaluate("() => window.scrollTo(0, 330)")
    film.shoot(26, 0.12)
    page.locator(".panel select").first.select_option("0")
    film.shoot(8, 0.15)


def look(film: Film, machine: str, turns: int) -> None:
    page = film.page
    page.evaluate("to => { location.hash = to; }", f"#/look?machine={machine}")
    valleys = page.locator("figure.wide .valley").first
    valleys.wait_for(timeout=120_000)
    page.locator(".verdict").filter(has_text=":" if machine.endswith("retrieval") else "glass").wait_for(
        timeout=300_000
    )
    box = page.locator("figure.wide svg.plot").bounding_box()
    x, y = box["x"] + 0.3 * box["width"], box["y"] + 0.9 * box["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    for turn in range(turns):
        page.mouse.move(x + 16 * (turn + 1), y)
        film.shoot(1, 0.02)
    page.mouse.up()


def slide(page: Any, name: str, share: float) -> None:
    page.locator(f"input[name={name}]").fill(str(share))


@contextmanager
def served(folder: str) -> Iterator[str]:
    command = [sys.executable, "-m", "rapidbm", "studio", folder, "--no-browser", "--json", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["address"]
        finally:
            process.send_signal(signal.SIGINT)


def main(path: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        served(folder) as address,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = browser.new_page(viewport={"width": WIDE, "height": TALL})
        page.goto(address)
        page.get_by_role("button", name="No, thanks").click()
        film = Film(page)
        while not page.evaluate("() => document.querySelector('.dream-stage canvas').width > 1"):
            time.sleep(0.05)
        dream(film)
        play(film)
        look(film, "specimen:retrieval", 12)
        look(film, "specimen:glass", 16)
        film.hold(6)
        browser.close()
    film.write(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
