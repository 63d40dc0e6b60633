"""Build the site: guide, papers, reference, gallery, notebooks, results. Any dead link or warning is an error.

    python tools/make_docs.py                  # into build/site; needs docs/requirements.txt
    python tools/make_docs.py --no-notebooks   # notebooks as they are, without running them: half a minute

The pages of the repository are copied as they lie, so that links between them stay true. Links to files of code lead
to pages that show them. The studio is exported to build/site/studio, with the answers of the models that ship.
"""

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
STAGE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
UNITS = "ms|s|min|minutes|h|hours|days|years|B|KB|MB|MiB|GB|GiB|TB|%|M|G|×"
UNIT = re.compile(rf"(?<=\d) (?=(?:{UNITS})(?:[ ,;)]|$))|(?<=≈) (?=\d)", re.MULTILINE)
BESIDE = re.compile(r"^(\S.*?)  +(# .*)$", re.MULTILINE)  # a command and, after two spaces or more, what it does
LONG = 108  # signs of a line of code that has room on a page
ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
LINK = re.compile(r"(\[[^\]]*\])\(([^)#\s]+)(#[^)]*)?\)")
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.(?:png|gif|svg))\)")
GUIDE = (
    "start", "overview", "lookup", "scores", "alignments", "attention", "masks", "positions", "translation", "pictures",
    "reading_and_memory", "studio", "playground", "zoo", "seeing", "pictures_on_the_page", "look_into_a_model",
    "transformers", "training", "export", "notation",
)  # fmt: skip
FIGURES = ("results", "reproduction", "cost", "speed", "planning")
CONFIG = """
project, copyright = "regard", "the regard developers"
extensions = ["myst_parser"]
html_theme, html_title = "furo", "regard"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
myst_heading_anchors = 6
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
exclude_patterns = ["_static"]
"""
STYLE = """
.content { width: 56em; }
.sidebar-drawer { width: calc(50% - 31em); }
article p, article li, article dd { max-width: 48em; }
article td p, article td li { max-width: none; }
table.docutils { display: block; overflow-x: auto; font-size: .8em; }
.highlight .nn { text-decoration: none !important; }
.signature pre, .highlight-sh pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); gap: 1.5rem; }
.gallery figure { margin: 0; }
.gallery img { width: 100%; height: 14rem; object-fit: contain; background: #fff; border-radius: .4rem; }
.regard.widget { margin: 1rem 0; border: 1px solid var(--color-background-border); overflow-x: auto; }
h2 code.literal { font-size: .9em; }
"""


def tool(name: str) -> ModuleType:
    """Another tool of this folder."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stage(*, notebooks: bool) -> None:
    """Everything that the generator reads, in a folder of its own."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    pages = [
        *(ROOT / name for name in TOP),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "src").rglob("*.md")),
        ROOT / "notebooks" / "README.md",
    ]
    shown: set[Path] = set()
    for path in pages:
        target = STAGE / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        listed = path.parent.name in ("docs", "papers") or (path.parent == ROOT and path.name != "README.md")
        orphan = "" if listed else "---\norphan: true\n---\n"
        target.write_text(orphan + linked(path, shown), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "images", STAGE / "docs" / "images")
    for path in sorted(shown):
        _show_code(path)
    (STAGE / "_static").mkdir()
    (STAGE / "_static" / "site.css").write_text(STYLE, encoding="utf-8")
    (STAGE / "conf.py").write_text(CONFIG, encoding="utf-8")
    areas = tool("reference").write(STAGE / "reference")
    books = write_notebooks(run=notebooks)
    (STAGE / "docs" / "gallery.md").write_text(gallery(pages), encoding="utf-8")
    (STAGE / "index.md").write_text(front(areas, books), encoding="utf-8")


def linked(path: Path, shown: set[Path]) -> str:
    """A page whose links to files of code lead to the pages that show them; those files are added to `shown`."""

    def replace(match: re.Match[str]) -> str:
        name, target = match[1], match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        there = (path.parent / target).resolve()
        if not there.exists():
            raise SystemExit(f"{path.relative_to(ROOT)} links to {target}, which is not there")
        if there.suffix in (".md", ".png", ".gif", ".svg"):
            return match[0]
        shown.add(there)
        up = "../" * len(path.relative_to(ROOT).parents[0].parts)
        return f"{name}({up}code/{page_of(there)}.md)"

    parts = FENCED.split(path.read_text(encoding="utf-8"))  # what stands inside of fences is no link of this page
    return "".join(
        above(part) if number % 2 else together(LINK.sub(replace, part)) for number, part in enumerate(parts)
    )


def above(block: str) -> str:
    """A block of commands in which what each does stands above it, if there is no room for it beside."""
    if not block.startswith("```sh\n") or max(map(len, block.splitlines())) <= LONG:
        return block
    return BESIDE.sub(r"\2\n\1", block)


def together(text: str) -> str:
    """The same with numbers that stay on the line of their units, in the narrow cells of tables.

    >>> together("| 3 ms, ≈ 2.5 min |") == "| 3\\u00a0ms, ≈\\u00a02.5\\u00a0min |"
    True
    """
    return ROW.sub(lambda row: UNIT.sub("\u00a0", row[0]), text)


def page_of(path: Path) -> str:
    """The name of the page that shows a file or a folder."""
    return re.sub(r"\W+", "_", str(path.relative_to(ROOT)))


def _show_code(path: Path) -> None:
    target = STAGE / "code" / f"{page_of(path)}.md"
    target.parent.mkdir(exist_ok=True)
    name = path.relative_to(ROOT)
    if path.is_dir():
        body = "\n".join(sorted(child.name for child in path.iterdir() if not child.name.startswith(("_", "."))))
    else:
        body = path.read_text(encoding="utf-8")
    kind = {".py": "python", ".toml": "toml", ".json": "json"}.get(path.suffix, "text")
    target.write_text(f"---\norphan: true\n---\n# `{name}`\n\n`````{kind}\n{body}\n`````\n", encoding="utf-8")


def write_notebooks(*, run: bool) -> list[str]:
    """A page for each notebook, with what its cells show."""
    pages = tool("notebook_pages")
    folder, names = STAGE / "notebooks", []
    folder.mkdir(exist_ok=True)
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        print(f"{'running' if run else 'reading'} {path.name}", flush=True)
        notebook = pages.run(path) if run else {"cells": pages.cells(path)}
        text = pages.as_page(notebook, path.stem, folder / "pictures")
        text = text.replace(f"(../../notebooks/{path.name})", f"({path.name})")
        shutil.copy(path, folder / path.name)
        (folder / f"{path.stem}.md").write_text(text, encoding="utf-8")
        names.append(path.stem)
    return names


def gallery(pages: list[Path]) -> str:
    """Every picture of the pages with its words, each once, and the page that tells of it."""
    lines, seen = (
        ["# Gallery", "", "Every picture was drawn by the library; each leads to the page that tells of it.", ""],
        set(),
    )
    for path in pages:
        if path.parent.name not in ("docs", "papers"):
            continue
        text = path.read_text(encoding="utf-8")
        title = text.partition("\n")[0].removeprefix("# ")
        for match in IMAGE.finditer(text):
            where = (path.parent / match[2]).resolve()
            if where in seen:
                continue
            seen.add(where)
            picture, page = where.relative_to(ROOT / "docs"), path.relative_to(ROOT / "docs")
            lines += [f"![{match[1]}]({picture})", "", f"{match[1]} ([{title}]({page}))", ""]
    return "\n".join(lines)


def front(areas: list[str], books: list[str]) -> str:
    """The first page: README as it is, then what the site has."""
    text = (STAGE / "README.md").read_text(encoding="utf-8")
    papers = sorted(path.stem for path in (ROOT / "docs" / "papers").glob("*.md"))
    trees = {
        "Guide": [f"docs/{name}" for name in GUIDE],
        "Notebooks": [f"notebooks/{name}" for name in books],
        "Papers": [f"docs/papers/{name}" for name in papers],
        "Figures": [*(f"docs/{name}" for name in FIGURES), "docs/gallery"],
        "Reference": [f"reference/{name}" for name in areas],
        "Project": ["docs/cite", "ARCHITECTURE", "CONTRIBUTING", "CHANGELOG"],
    }
    told = {Path(name).name for names in trees.values() for name in names}
    if missing := sorted(path.stem for path in (ROOT / "docs").glob("*.md") if path.stem not in told):
        raise SystemExit(f"docs/{missing[0]}.md is on no list of tools/make_docs.py: add it to GUIDE or FIGURES")
    text += (
        '\n<p><a href="studio/index.html">The studio</a>, its playground and its lecture, in a browser; from disk they '
        "need <code>python -m http.server</code> in the folder of the site.</p>\n"
    )
    for title, names in trees.items():
        body = "\n".join(names)
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{body}\n```\n"
    return text.replace("---\norphan: true\n---\n", "")


def build() -> int:
    """Run the generator; its exit status, which is not 0 after any warning."""
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html",
         "-d", str(ROOT / "build" / "site-trees"), str(STAGE), str(SITE)]
    )  # fmt: skip
    return done.returncode or export_studio()


def export_studio() -> int:
    """The studio as static pages, with the answers of the models that ship; its exit status."""
    with tempfile.TemporaryDirectory() as empty:  # without the trainings of whoever builds the site
        command = [sys.executable, "-m", "regard", "studio", "--export", str(SITE / "studio")]
        paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]  # this clone, whatever is installed
        return subprocess.run(command, cwd=empty, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}).returncode


def elsewhere() -> list[str]:
    """What the pages of the site would fetch from a network: nothing may."""
    found = []
    for page in SITE.rglob("*.html"):
        for match in re.finditer(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', page.read_text("utf-8")):
            if 'rel="canonical"' not in match[0]:
                found.append(f"{page.relative_to(SITE)}: {match[1]}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-notebooks", action="store_true", help="do not run the notebooks")
    asked = parser.parse_args()
    if importlib.util.find_spec("sphinx") is None:
        raise SystemExit("the site needs sphinx. Try: pip install -r docs/requirements.txt, or make docs")
    stage(notebooks=not asked.no_notebooks)
    status = build()
    if status == 0 and (far := elsewhere()):
        print("\n".join(["the site would fetch from a network:", *far]), file=sys.stderr)
        status = 1
    if status == 0:
        print(f"{len(list(SITE.rglob('*.html')))} pages: {SITE / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
