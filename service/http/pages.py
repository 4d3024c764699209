"""The HTML pages and their files, which load nothing from other hosts."""

from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse

WEB = Path(__file__).parent / "web"
PAGES = {"/": "index.html", "/docs": "docs.html"}
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "cache-control": "no-cache",  # asked again, and answered with 304 while it is the same
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
}


def add_pages(app: FastAPI) -> None:
    """Add the pages, and each of their files under `/web/`."""
    for path, name in PAGES.items():
        _add(app, path, WEB / name, "text/html")
    for file in sorted(WEB.rglob("*")):
        if file.suffix in TYPES:
            name = file.relative_to(WEB).as_posix()
            _add(app, f"/web/{name}", file, TYPES[file.suffix])


def _add(app: FastAPI, path: str, file: Path, media_type: str) -> None:
    async def serve() -> FileResponse:
        return FileResponse(file, media_type=media_type, headers=HEADERS)

    app.add_api_route(path, serve, include_in_schema=False)
