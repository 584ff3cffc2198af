"""Take a picture of a page in Chromium: ``python docs/images/screenshot.py --help``.

Needs Chromium (``apt-get install chromium``), and the extras dev and watch.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

COLOURS = 256
"""Of the picture: a palette keeps it small."""


def main() -> None:
    """Open a page, press keys, and save what a window of some size shows."""
    parser = argparse.ArgumentParser(description="Take a picture of a page in Chromium.")
    parser.add_argument("page", type=Path, help="an HTML file")
    parser.add_argument("out", type=Path, help="the picture, .png")
    parser.add_argument("--size", default="1200x1500", help="of the window (default: 1200x1500)")
    parser.add_argument("--at", default="", help="where the page is opened, such as learning")
    parser.add_argument("--dark", action="store_true", help="as on a system with dark colours")
    parser.add_argument("--press", default="", help="a key, such as ArrowRight")
    parser.add_argument("--times", type=int, default=1, help="how often it is pressed")
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if options.dark else "light",
            reduced_motion="reduce",
        )
        page.goto(f"{options.page.resolve().as_uri()}#{options.at}")
        for _ in range(options.times if options.press else 0):
            page.keyboard.press(options.press)
        page.wait_for_timeout(1000)
        picture = page.screenshot()
        browser.close()
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(options.out, optimize=True)
    print(options.out)


if __name__ == "__main__":
    main()
