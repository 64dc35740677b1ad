"""The report as a reader has it: opened from disk in a browser, without a network."""

import io
import json
import math

import canned
import pytest
from hakmem_lab import figures, html
from hakmem_lab.front import main
from hakmem_lab.report import digits

WIDTH = 1280
LEAST_COLOURS = 6  # of a chart's picture; a blank one has one
LEAST_INK = 0.004  # share of its points that are not background


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    html.write(canned.document(), path)
    return path


@pytest.fixture
def page(browser, report, request):
    context = browser.new_context(
        viewport={"width": WIDTH, "height": 900}, color_scheme=getattr(request, "param", "light"),
        offline=True,
    )  # fmt: skip
    opened = context.new_page()
    opened.errors = []
    opened.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.goto(report.as_uri())
    yield opened
    context.close()


def picture(element):
    from PIL import Image

    return Image.open(io.BytesIO(element.screenshot())).convert("RGB")


@pytest.mark.long
@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_every_chart_is_drawn(page):
    charts = page.query_selector_all("figure.chart")
    kinds = [chart.get_attribute("data-chart") for chart in charts]
    assert kinds.count("scatter") == kinds.count("heat") == 1
    groups = {row["group"] for row in canned.document()["rows"]}
    assert kinds.count("bars") == len(groups)
    for kind, chart in zip(kinds, charts):
        shown = picture(chart)
        colours = shown.getcolors(1 << 24)
        background = max(colours)[0] / (shown.width * shown.height)
        assert len(colours) >= LEAST_COLOURS and 1 - background >= LEAST_INK, kind
        assert shown.width > 1000 and shown.height > 100, kind
    assert page.errors == []


def test_nothing_is_wider_than_the_page(page):
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    for name in (".wide", "section", "figure"):
        excess = page.evaluate(
            f"Math.max(...[...document.querySelectorAll('{name}')]"
            ".map(e => e.scrollWidth - e.clientWidth))"
        )
        assert excess <= 1, name


def test_tables_sort_by_the_column_that_is_clicked(page):
    table = page.query_selector("#overview table.sortable")
    for order in ([0.0, math.inf], [math.inf, 0.0]):
        table.query_selector_all("th")[1].click()
        values = [float(row.query_selector_all("td")[1].inner_text())
                  for row in table.query_selector_all("tbody tr")]  # fmt: skip
        assert len(values) == 3 and values == sorted(values, reverse=order[0] > order[1])


def test_it_says_what_it_must(report):
    text = report.read_text()
    for said in (
        "0123456789ab, with uncommitted changes", "hakmem_lab bench --size &lt;standard&gt;",
        "glibc 2.36", "5.3.1", "MALLOC_CONF=a:b", "needs gs (Debian: apt-get install ghostscript)",
        "ended by SIGSEGV", "the machine stays busy", "samples were disturbed", "huge pages",
        "governor", "123\u202f456", "33.3",
    ):  # fmt: skip
        assert said in text, said
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text
    assert "None" not in text and "nan" not in text.lower().split()


def test_losses_are_marked_like_wins():
    assert figures._shade(1.5, True)[0] == figures._shade(0.6, False)[0] == figures.BETTER
    assert figures._shade(0.6, True)[0] == figures._shade(1.5, False)[0] == figures.WORSE
    (_, faint), (_, strong) = figures._shade(1.01, True), figures._shade(2.0, True)
    assert faint < 0.05 < strong == figures.SHADE


def test_a_report_of_nothing_and_of_one_allocator(tmp_path):
    empty = {**canned.document(), "rows": [], "verdict": [], "interrupted": True, "base": None}
    html.write(empty, tmp_path / "empty.html")
    one = canned.document()
    for row in one["rows"]:
        row["allocators"] = {"hakmem": row["allocators"]["hakmem"]}
        for name in ("best", "ratio", "ahead"):
            row.pop(name, None)
    html.write(one, tmp_path / "one.html")
    assert "<figure" not in (tmp_path / "one.html").read_text()


@pytest.mark.long
def test_drawn_anew_from_a_folder(tmp_path, capsys):
    (tmp_path / "summary.json").write_text(json.dumps(canned.document(), default=str))
    assert main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "report.html")
    (tmp_path / "summary.json").write_text("{}")
    assert main(["report", str(tmp_path)]) == 1
    with pytest.raises(SystemExit, match="2"):  # before packages are installed for it
        main(["report", str(tmp_path / "no")])
    assert capsys.readouterr().err.count("\n") == 2


def test_numbers_have_three_digits():
    shown = [digits(v) for v in (0, 0.01234, 0.5, 1.234, 99.96, 123.4, 12345, -2.5)]
    assert shown == ["0.00", "0.0123", "0.500", "1.23", "100.0", "123", "12345", "-2.50"]


@pytest.mark.long
def test_nothing_is_wider_than_a_telephone(page):
    """What must be wide scrolls in its own frame; the page's top says what it is made of."""
    page.set_viewport_size({"width": 390, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert "Made of" in page.query_selector("header").inner_text()
