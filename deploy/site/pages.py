"""What the site adds to docs/: pages of other folders, the options of all commands; links that fit.

A hook of mkdocs (mkdocs.yml). Links are written as they lead in the repository; those to what is no
page of the site, such as a folder of the code, become plain text.
"""

import os
import posixpath
import re

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # nothing is computed: no compiler is loaded

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click

from kaboost.service import cli

# Page of the site and its file in the repository.
FROM_ELSEWHERE = {
    "benchmarks.md": "bench/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "data.md": "data/README.md",
}
LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(([^)\s]+)\)")
MERMAID = re.compile(r"```mermaid\n.*?```", re.S)
STYLE = ".md-grid { max-width: 72rem; }\n"  # 140 characters of code fit between the two menus
OPTIONS = """# Options of all commands

As `kaboost COMMAND --help` prints them; [commands](commands.md) explains what they do.

"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for page, path in FROM_ELSEWHERE.items():
        files.append(File.generated(config, page, abs_src_path=os.path.abspath(path)))
    files.append(File.generated(config, "site.css", content=STYLE))
    files.append(File.generated(config, "options.md", content=OPTIONS + options()))
    return files


def options() -> str:
    """Return every command with its options, as typer writes them."""
    command = typer.main.get_command(cli.app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name="kaboost")
    return text[text.index("\n") :].strip() + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page for its place on the site."""
    here = page.file.src_uri
    written = FROM_ELSEWHERE.get(here, f"docs/{here}")

    def rewritten(found: re.Match[str]) -> str:
        image, text, link = found.groups()
        path, hash_, anchor = link.partition("#")
        if not path or ":" in path or path.startswith("/"):
            return found[0]
        target = site_page(posixpath.normpath(posixpath.join(posixpath.dirname(written), path)))
        if target is None or files.get_file_from_path(target) is None:
            return text
        relative = posixpath.relpath(target, posixpath.dirname(here) or ".")
        return f"{image}[{text}]({relative}{hash_}{anchor})"

    return MERMAID.sub(picture(), LINK.sub(rewritten, markdown))


def picture() -> str:
    """Return README's picture in characters, for the diagram that only a script could draw."""
    with open("README.md", encoding="utf-8") as file:
        return file.read().split("\n## How it works\n\n")[1].split("\n\n- ")[0]


def site_page(path: str) -> str | None:
    """Return the page of the site for a file of the repository, if it is one."""
    for page, written in FROM_ELSEWHERE.items():
        if path == written:
            return page
    return path.removeprefix("docs/") if path.startswith("docs/") else None
