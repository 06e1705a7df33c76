"""``gump explore``."""

from __future__ import annotations

import webbrowser
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Annotated

import typer

from gump.cli.console import check_out, plain_errors

HOPS = 2


def explore(
    graph: Annotated[str, typer.Argument(help="a file of edges, a dataset such as MUTAG or Ring-20, or smiles:CCO")],
    index: Annotated[int, typer.Option(help="the number of the graph in it")] = 0,
    out: Annotated[Path, typer.Option(help="the page to write")] = Path("out/explore.html"),
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="of the untrained model")] = 0,
    around: Annotated[int | None, typer.Option(help="draw only what is near this vertex")] = None,
    hops: Annotated[int | None, typer.Option(min=1, help=f"how near, {HOPS} by default")] = None,
    max_vertices: Annotated[int, typer.Option(min=1, help="refuse a larger graph")] = 200,
    serve: Annotated[bool, typer.Option("--serve", help="open the page, until Ctrl-C")] = False,
) -> None:
    """Write a page on which a signal spreads over a graph.

    Example: gump explore MUTAG --index 7 --out page.html
    """
    from gump.experiment.explore import exploration, find_graph, neighborhood
    from gump.report.explore import write_explore

    with plain_errors():
        check_out(out, "explore.html")
        if hops is not None and around is None:
            raise ValueError(f"'--hops' must come with '--around', the vertex to begin at (got --hops {hops} alone)")
        found = find_graph(graph, index)
        if around is not None:
            found = neighborhood(found, around, hops or HOPS)
        path = write_explore(exploration(found, seed, max_vertices), out)
        typer.echo(f"written to {path}", err=True)
    if serve:
        serve_page(path.read_bytes())


def serve_page(page: bytes) -> None:
    """Shows a page in the browser, from an address that only this machine can reach."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing about requests."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        typer.echo(f"serving {address} until Ctrl-C", err=True)
        webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
