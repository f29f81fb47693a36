"""Take the pictures of README and docs that show a page: `make screenshots`, some minutes on two cores.

Two small studies of the bundled models tiny and tiny-sparse are run (steps in the cache are not computed again), their
reports and the switchboard of tiny are opened in a Chromium, and what it shows becomes docs/figures/NAME.png.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

import headcount as hc

HOME = Path(__file__).parent.parent
FIGURES, RESULTS = HOME / "docs" / "figures", HOME / "headcount-results"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
CUT = 6
"""Heads that are cut on the switchboard: those that matter most."""


@contextmanager
def browser() -> Iterator[Browser]:
    """The machine's own Chromium, or Playwright's where there is none."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


def opened(shown: Browser, address: str, **look: Any) -> Page:
    """A page as a laptop shows it, with more pixels."""
    look = {"viewport": {"width": 1280, "height": 1150}, "device_scale_factor": 1.5, "color_scheme": "light", **look}
    page = shown.new_page(**look)
    page.goto(address)
    page.wait_for_selector("main")
    return page


def take(page: Page, name: str, selector: str = "") -> None:
    place = FIGURES / f"{name}.png"
    page.locator(selector).screenshot(path=place) if selector else page.screenshot(path=place)
    print(f"{place.relative_to(HOME)}: {place.stat().st_size:,} bytes")


def study(name: str, *tasks: str) -> str:
    """The address of its report."""
    out = RESULTS / f"screenshots-{name}"
    hc.run(name, models=["tiny", "tiny-sparse"], tasks=tasks, quick=True, out=out)
    return (out / "report.html").resolve().as_uri()


def heads(shown: Browser) -> None:
    address = study("heads-kept", "ioi", "greater-than", "docstring")
    take(opened(shown, address), "report")
    page = opened(shown, address, viewport={"width": 1280, "height": 980})
    page.locator(".bar").scroll_into_view_if_needed()
    page.evaluate("scrollTo(0, document.querySelector('.bar').getBoundingClientRect().top + scrollY)")
    take(page, "report-heads")


def circuit(shown: Browser) -> None:
    page = opened(shown, study("edges-kept", "ioi"), color_scheme="dark")
    node = page.locator(".circuit .node").last
    node.scroll_into_view_if_needed()
    node.focus()
    take(page, "report-circuit", "section:has(.circuit)")


def switchboard(shown: Browser) -> None:
    model = hc.load("tiny")
    task = hc.task("ioi", model, n=40)
    pair, first = task.test[0], hc.score(model, task, "attribution-ig").top(CUT)
    words = {"prompt": model.decode(pair.clean), "other": model.decode(pair.corrupt)}
    answers = {"answer": model.decode(pair.answers[:1]), "wrong": model.decode(pair.wrongs[:1])}
    board = hc.play(model, **words, **answers, results=None)
    page = opened(shown, board.url, viewport={"width": 1440, "height": 900})
    page.wait_for_selector("#next-tokens")
    page.select_option("#fill", "counterfactual")
    for head in first:
        page.click(f'[data-head="{head[1:].replace(".h", ".")}"]')
    page.wait_for_selector(f"#cut-count:text-is('{CUT}')")
    page.wait_for_selector("main[aria-busy=false]")
    page.wait_for_selector(".look canvas")
    take(page, "play")
    board.stop()


if __name__ == "__main__":
    with browser() as chromium:
        heads(chromium)
        circuit(chromium)
        switchboard(chromium)
