"""A real browser for the tests of pages: one for all of them, where a Chromium is found."""

from urllib.parse import urlsplit

import pytest

from results_by_hand import write_by_hand

TASK = {"head-roles": ("syntax",), "masked-heads": ("retrieval",)}

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


USABLE = """() => [...document.querySelectorAll("*")].flatMap((one, place) =>
  one.matches("a[href], button, input, select, summary, textarea, [tabindex='0']") && one.checkVisibility()
    && !one.disabled && one.tabIndex === 0 ? [place] : [])"""
NOTED = """() => {
  const all = [...document.querySelectorAll("*")];
  window.noted = [];
  document.addEventListener("focusin", ({ target }) => {
    const shown = [target, ...target.querySelectorAll("rect")].map((one) => getComputedStyle(one));
    const outlined = shown.some((one) => one.outlineStyle !== "none" || parseFloat(one.strokeWidth) > 2);
    window.noted.push({ place: all.indexOf(target), what: target.outerHTML.slice(0, 80), outlined });
  });
}"""  # what Tab comes to, and whether it can be seen that it has


@pytest.fixture(scope="session")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def kept_page(browser):
    """For reports from disk, which leave nothing behind but a theme: a page of its own takes as long as all the rest of
    opening one."""
    context = browser.new_context(accept_downloads=True)
    yield context.new_page()
    context.close()


@pytest.fixture
def opened(browser, kept_page):
    """Open a page; what it says in its console is an error of the test, and so is a request to anywhere else."""
    contexts, troubles, heard = [], [], []

    def new_page(**options):
        contexts.append(browser.new_context(accept_downloads=True, **options))
        return contexts[-1].new_page()

    def open_page(path, width=1280, height=900, color_scheme="light", **more):
        served = str(path).startswith("http")
        address = path if served else path.resolve().as_uri()
        page = new_page(**more) if served or more else kept_page
        page.emulate_media(color_scheme=color_scheme)
        page.set_viewport_size({"width": width, "height": height})
        page.set_default_timeout(15_000)

        def note_message(said):
            if said.type in ("error", "warning"):
                troubles.append(said.text)

        def note_request(asked):
            if _elsewhere(asked.url, address):
                troubles.append(asked.url)

        listeners = {
            "console": note_message,
            "pageerror": lambda error: troubles.append(str(error)),
            "request": note_request,
        }
        for event, listener in listeners.items():
            page.on(event, listener)
            heard.append((page, event, listener))
        page.goto(address)
        page.wait_for_selector("main")
        return page

    yield open_page
    for context in contexts:
        context.close()
    if any(page is kept_page for page, _, _ in heard):
        kept_page.evaluate("localStorage.clear()")
        kept_page.mouse.move(0, 0)
        kept_page.goto("about:blank")
    for page, event, listener in heard:
        page.remove_listener(event, listener)
    assert not troubles


def _elsewhere(url, address):
    there, here = urlsplit(url), urlsplit(address)
    return there.scheme not in ("data", "blob", "about") and (there.scheme, there.netloc) != (here.scheme, here.netloc)


@pytest.fixture
def accessible():
    """Nothing serious that axe-core finds."""
    from axe_playwright_python.sync_playwright import Axe

    def check(page):
        found = Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, [(one["id"], [node["html"][:200] for node in one["nodes"][:3]]) for one in serious]

    return check


@pytest.fixture
def tabbed_through():
    """Tab goes to everything that can be used, in the order of the page, and it can be seen where it is."""

    def check(page):
        usable = page.evaluate(USABLE)
        page.evaluate(NOTED)
        for _ in range(len(usable) + 10):  # a browser may stop at what can be scrolled too
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
        reached = page.evaluate("noted")
        places = [one["place"] for one in reached if one["place"] >= 0]  # what came up meanwhile was not asked for
        assert set(usable) <= set(places), "nothing is left out, and nothing holds the focus"
        assert all(one["outlined"] for one in reached), [one for one in reached if not one["outlined"]]
        assert places == sorted(places)

    return check


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Write a report by hand; gives its path and the cells that it was made from."""

    def write(kind, **more):
        more.setdefault("tasks", TASK.get(kind, ("ioi",)))
        return tmp_path / "report.html", write_by_hand(kind, tmp_path, monkeypatch, **more)

    return write
