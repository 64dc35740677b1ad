#!/usr/bin/env python3
"""Makes the pages of the documentation site from the tree: `make site` gives them to mkdocs.

    scripts/site.py FOLDER     write FOLDER/pages and FOLDER/mkdocs.yml
    scripts/site.py --check    only find out whether every link leads somewhere

Every document of the tree is a page at its own place; the README is the first one. Links between documents stay as
they are. A file that is linked and is no document gets a page with its text, below `source/`.
"""

import html
import json
import os
import pathlib
import posixpath
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()([^()\s]+)(\))")
SOURCE_MOST = 300_000
MANUALS = ("hakmem.1", "hakmem.3")

# Titles and pages of the navigation; a page that is not here is found by its links and the search.
NAVIGATION = {
    "Start": {"HAKMEM": "README.md", "Building": "docs/BUILDING.md", "Packages": "packaging/README.md",
              "Changes": "CHANGELOG.md"},
    "Guides": {"My RSS is high": "docs/guides/high_rss.md",
               "Which call allocated it?": "docs/guides/heap_profiles.md",
               "A program frees wrongly": "docs/guides/wrong_frees.md",
               "Setting options": "docs/guides/options.md",
               "In containers": "docs/guides/containers.md",
               "Compatibility": "docs/COMPATIBILITY.md",
               "gdb, cores, valgrind, perf": "docs/DEBUGGERS.md",
               "Metrics: Prometheus, Grafana, notebooks": "docs/METRICS.md",
               "Recorded allocations": "docs/TRACES.md",
               "Against attacks and faults": "docs/HARDENED.md"},
    "Coming from": {"jemalloc": "docs/migration/jemalloc.md", "mimalloc": "docs/migration/mimalloc.md",
                    "tcmalloc": "docs/migration/tcmalloc.md"},
    "Reference": {"Options": "docs/ENV_OPTIONS.md", "Profiles": "docs/analysis/ENV_PROFILE_PRESETS.md",
                  "Statistics": "docs/STATISTICS.md", "API": "docs/API.md", "The hakmem command": "man/hakmem.1.md",
                  "hakmem(3)": "man/hakmem.3.md", "Heap profiler": "docs/PROFILING.md",
                  "System calls": "docs/SYSCALLS.md", "Forks and clones": "docs/INHERITED.md"},
    "Languages": {"Python": "bindings/python/README.md", "Rust": "bindings/rust/README.md"},
    "Inside": {"Architecture": "docs/ARCHITECTURE.md", "Giving memory back": "docs/GIVING_BACK.md",
               "The engine's folders": "src/README.md", "Loops": "docs/LOOP_BOUNDS.md",
               "Decisions": "docs/decisions/README.md"},
    "Measured": {"Comparison": "docs/PERF_COMPARISON_ALLOCATORS.md", "Cost": "docs/benchmarks/COST.md",
                 "Scale": "docs/benchmarks/SCALE.md",
                 "Benchmarks": "docs/benchmarks/README.md", "The lab": "bench/README.md"},
    "Working on it": {"Contributing": "CONTRIBUTING.md", "Tests": "tests/README.md", "Security": "SECURITY.md"},
}


def documents():
    """Paths of all documents that git knows, or that lie here where there is no git."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*.md"], text=True,
                            capture_output=True, check=False)
    names = listed.stdout.split("\n") if listed.returncode == 0 else \
        [str(path.relative_to(ROOT)) for path in ROOT.rglob("*.md") if "build" not in path.parts]
    return sorted(name for name in names if name and (ROOT / name).exists())


class Site:
    def __init__(self):
        self.pages = {name: (ROOT / name).read_text(encoding="utf-8") for name in documents()}
        self.sources = {}
        self.dead = []
        self.pages |= {f"man/{name}.md": "" for name in MANUALS}

    @staticmethod
    def manual(path):
        """A manual page as man(1) shows it."""
        shown = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=90n", path], capture_output=True, check=True)
        text = shown.stdout.decode()
        return f"# {path.stem}({path.suffix[1:]})\n\n<pre class=\"manual\">{html.escape(text)}</pre>\n"

    def target_of(self, page, link):
        """What a link becomes, seen from its page."""
        place, mark, anchor = link.partition("#")
        if not place or re.match(r"\w+:", link):
            return link
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(page), place))
        if (ROOT / wanted).is_dir():
            wanted = posixpath.join(wanted, "README.md")
        if wanted not in self.pages:
            if not (ROOT / wanted).is_file():
                self.dead.append(f"{page}: {link}")
                return link
            wanted = self.source(wanted)
        return posixpath.relpath(wanted, posixpath.dirname(page) or ".") + mark + anchor

    def source(self, name):
        """The page of a file that is no document."""
        path = f"source/{name}.md"
        if path not in self.sources:
            text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
            if len(text) > SOURCE_MOST:
                text = text[:SOURCE_MOST] + "\n..."
            self.sources[path] = f"# {name}\n\n<pre><code>{html.escape(text)}</code></pre>\n"
        return path

    def rewritten(self, page, text):
        """A page with its links changed, outside of code."""
        out, in_fence = [], False
        for line in text.split("\n"):
            if line.startswith("```"):
                in_fence = not in_fence
            elif not in_fence and not line.startswith("    "):
                parts = re.split(r"(`[^`]*`)", line)
                parts[::2] = [LINK.sub(lambda found: found[1] + self.target_of(page, found[2]) + found[3], part)
                              for part in parts[::2]]
                line = "".join(parts)
            out.append(line)
        return "\n".join(out)

    def build(self):
        pages = {page: self.rewritten(page, text) for page, text in self.pages.items()}
        for title, group in NAVIGATION.items():
            self.dead += [f"navigation, {title}: {page}" for page in group.values() if page not in pages]
        pages["index.md"] = pages.pop("README.md")
        return {page: re.sub(r"\]\(((?:\.\./)*)README\.md", self.to_index(page), text) for page, text in pages.items()} \
            | self.sources

    @staticmethod
    def to_index(page):
        """README.md of the root is index.md, those of folders keep their names."""
        depth = page.count("/")
        return lambda found: f"]({found[1]}index.md" if found[1].count("../") == depth else found[0]


def configuration():
    navigation = [{title: [{name: "index.md" if page == "README.md" else page} for name, page in group.items()]}
                  for title, group in NAVIGATION.items()]
    return {
        "site_name": "HAKMEM", "docs_dir": "pages", "site_dir": "html", "use_directory_urls": False,
        "site_description": "A general-purpose memory allocator for Linux",
        "theme": {"name": "material", "font": False,
                  "features": ["navigation.sections", "navigation.top", "search.highlight", "content.code.copy"],
                  "palette": [{"media": "(prefers-color-scheme: light)", "scheme": "default",
                               "toggle": {"icon": "material/weather-night", "name": "Dark"}},
                              {"media": "(prefers-color-scheme: dark)", "scheme": "slate",
                               "toggle": {"icon": "material/weather-sunny", "name": "Light"}}]},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "admonition", "pymdownx.superfences", "pymdownx.highlight",
                                "pymdownx.inlinehilite", {"toc": {"permalink": True}}],
        "extra_css": ["site.css"], "extra": {"generator": False}, "nav": navigation,
        "validation": {"nav": {"omitted_files": "ignore", "not_found": "warn", "absolute_links": "warn"},
                       "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn",
                                 "unrecognized_links": "warn"}},
    }


STYLE = """.md-grid { max-width: 74rem; }
@media (max-width: 44rem) { pre.manual { font-size: 0.6rem; } }
pre.manual { font-size: 0.68rem; line-height: 1.35; }
.md-typeset pre { overflow-x: auto; }
.md-typeset table:not([class]) td { min-width: 4rem; overflow-wrap: break-word; }
"""


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-") and sys.argv[1] != "--check":
        sys.exit(__doc__)
    site = Site()
    pages = site.build()
    if site.dead:
        sys.exit("links that lead nowhere:\n  " + "\n  ".join(site.dead))
    if sys.argv[1] == "--check":
        print(f"{len(pages)} pages, no dead link")
        return
    folder = pathlib.Path(sys.argv[1])
    manuals = {f"man/{name}.md": site.manual(ROOT / "docs/man" / name) for name in MANUALS}
    for name, text in (pages | manuals | {"site.css": STYLE}).items():
        path = folder / "pages" / name
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (folder / "mkdocs.yml").write_text(json.dumps(configuration(), indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
