"""The pages on a narrow screen, in a real browser."""

import html
import re
from pathlib import Path

import pytest

from kaboost.service.http import routes
from tests.browser import rendered

WIDTH = 400  # pixels: a phone
LONG = "a_name_of_a_feature_without_any_blanks" * 3
FILL = f"""<script>
for (const part of document.querySelectorAll("table, #state, main")) {{
  const row = document.createElement(part.tagName === "TABLE" ? "tr" : "code");
  for (const _ of "123") row.appendChild(document.createElement("td")).textContent = "{LONG}";
  part.append(row);
}}
</script>"""
MEASURE = """<script>
const frame = document.querySelector("iframe");
const measure = () => { document.title = frame.contentDocument.documentElement.scrollWidth; };
frame.onload = measure;
</script>"""


@pytest.mark.parametrize("page", ["index.html", "docs.html"])
def test_no_page_scrolls_sideways(page: str, tmp_path: Path) -> None:
    """Wide tables scroll on their own."""
    text = (Path(routes.__file__).parent / "web" / page).read_text()
    still = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    inner = html.escape(still.replace("</body>", f"{FILL}</body>"))
    outer = tmp_path / "outer.html"
    frame = (
        f'<iframe style="width: {WIDTH}px; height: 9000px; border: 0" srcdoc="{inner}"></iframe>'
    )
    outer.write_text(f"<!doctype html><title>none</title>{frame}{MEASURE}")

    shown = rendered(outer.as_uri(), tmp_path / "profile")

    assert f"<title>{WIDTH}</title>" in shown
