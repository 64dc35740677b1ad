"""`make site`: the documentation, strictly built, in Chromium on a wide and on a small screen."""

import functools
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("index", "docs/guides/high_rss", "docs/ENV_OPTIONS", "docs/API", "docs/migration/jemalloc",
         "man/hakmem.1", "docs/STATISTICS", "docs/METRICS")  # fmt: skip
pytestmark = pytest.mark.long


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the site, served as a web server would."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, ROOT / "scripts/site.py", folder], check=True, timeout=300)
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", folder / "mkdocs.yml"],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    handler = functools.partial(Quiet, directory=folder / "html")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("width", (1400, 390))
def test_pages(browser, site, width):
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    problems = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: request.url.startswith(site) or problems.append(request.url))
    page.on("response", lambda response: response.status < 400 or problems.append(response.url))
    for name in PAGES:
        page.goto(f"{site}/{name}.html")
        assert page.locator("h1").count() == 1, name
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{name} is {wide} pixels wider than {width}"
        assert page.evaluate("document.querySelector('article').innerText.length") > 300, name
    assert not problems
    context.close()


def test_search_knows_every_page(browser, site):
    """Options, figures and functions can be found."""
    context = browser.new_context()
    index = context.request.get(f"{site}/search/search_index.json").json()
    text = json.dumps(index)
    for word in ("HAKMEM_PURGE_DELAY_MS", "hakmem_stats_get", "shared_lock", "dirty_decay_ms"):
        assert word in text, word
    context.close()


def test_a_dead_link_is_found(tmp_path):
    """The same script over a copy of itself whose navigation names a page that is not there."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    script = (ROOT / "scripts/site.py").read_text(encoding="utf-8")
    (folder / "site.py").write_text(script, encoding="utf-8")
    (tmp_path / "README.md").write_text("[one](two.md) and `[no](link.md)`\n", encoding="utf-8")
    found = subprocess.run([sys.executable, folder / "site.py", "--check"], capture_output=True,
                           text=True, timeout=300)  # fmt: skip
    assert found.returncode == 1
    assert "README.md: two.md" in found.stderr and "link.md" not in found.stderr
