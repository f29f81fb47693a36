"""The built pages are those of the sources, and bring the licences of what they are made from."""

import hashlib
import json
from pathlib import Path

from headcount.view.page.html import STATIC, inert, page_html

FRONTEND = Path(__file__).parents[2] / "frontend"


def test_the_built_pages_are_those_of_the_sources():
    files = [path for path in (FRONTEND / "src").rglob("*") if path.is_file()] + [FRONTEND / "package-lock.json"]
    found = hashlib.sha256()
    for name, path in sorted((path.relative_to(FRONTEND).as_posix(), path) for path in files):
        found.update(f"{name}\n".encode())
        found.update(path.read_bytes())
    assert found.hexdigest()[:24] == (STATIC / "source.txt").read_text().strip(), "run make page"


def test_licences_come_with_the_pages():
    packages = json.loads((FRONTEND / "package.json").read_text())["dependencies"]
    licences = (STATIC / "licences.txt").read_text()
    for name, version in packages.items():
        assert f"\n{name} {version} (" in licences


def test_markup_in_data_stays_data():
    planted = json.dumps({"a": "</script><script>alert(1)</script><!--", "b": "\u2028 & <b>"}, ensure_ascii=False)
    assert "<" not in inert(planted)
    assert json.loads(inert(planted)) == json.loads(planted)
    written = page_html("report", "</title><script>", planted)
    assert written.count("<script") == 2
    assert written.partition("<style>")[0].count("</title>") == 1


def test_no_source_writes_markup_from_text():
    for path in (FRONTEND / "src").rglob("*.js"):
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "dangerouslySetInnerHTML", "eval(", "fetch("):
            if word == "fetch(" and "play" in path.parts:
                continue  # the switchboard asks its own server
            assert word not in path.read_text(), f"{path.name} has {word}"
