"""The page of ``gump explore``, in a real browser."""

import itertools
import json
import re
import shutil
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from graphs import barbell, random_graph, star
from playwright.sync_api import expect, sync_playwright
from torch_geometric.data import Data
from typer.testing import CliRunner

from gump.cli import app
from gump.experiment.explore import Found, exploration, find_graph
from gump.linalg import unitarity_error
from gump.line_graph import EulerianLineGraph
from gump.report.explore import write_explore

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SYSTEMS = ("gcn", "newton_schulz", "bounded")
WALKS = SYSTEMS[1:]


class Reference:
    """The numbers that the page shows, computed in the slow obvious way from the same model."""

    def __init__(self, found: Found) -> None:
        self.content = content = exploration(found, seed=0, max_vertices=300)
        self.num_nodes = len(content["label"])
        self.line_graph = EulerianLineGraph.from_edge_index(torch.from_numpy(content["arcs"]), self.num_nodes)
        adjacency = np.zeros((self.num_nodes, self.num_nodes))
        np.add.at(adjacency, tuple(content["adjacency_index"]), content["adjacency_weight"])
        self.operators = {"gcn": adjacency}
        for key in WALKS:
            operator = np.zeros((self.line_graph.num_arcs,) * 2)
            operator[tuple(self.line_graph.transitions().numpy())] = content[key]
            self.operators[key] = operator
        links = (adjacency > 0).astype(float)
        powers = [np.linalg.matrix_power(links, k) > 0 for k in range(self.num_nodes)]
        self.hops = self.num_nodes - np.sum(powers, axis=0)  # the loops of the adjacency make every power hold the one before

    def numbers(self, key: str, source: int, depth: int) -> dict[str, float]:
        place = np.arange(self.num_nodes) if key == "gcn" else self.line_graph.arcs[0].numpy()
        state = (place == source) / max((place == source).sum(), 1) ** 0.5
        state = np.linalg.matrix_power(self.operators[key], depth) @ state
        energy = np.bincount(place, weights=state**2, minlength=self.num_nodes)
        total = energy.sum()
        return {"total": total, "return": energy[source], "reach": energy @ self.hops[source] / total if total > 0 else np.nan}

    def coin(self, key: str, vertex: int) -> torch.Tensor:
        rows = torch.arange(self.line_graph.num_arcs)[self.line_graph.arcs[0] == vertex]
        return torch.from_numpy(self.operators[key])[self.line_graph.reverse[rows]][:, rows]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium on PATH, such as Debian's package: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def reference() -> Reference:
    edge_index, num_nodes = barbell(4)
    x = torch.randn(num_nodes + 1, 3, generator=torch.Generator().manual_seed(0))
    return Reference(Found(Data(x=x, edge_index=edge_index), "two cliques"))  # and a vertex without edges, the last


@pytest.fixture
def open_page(browser: Any, reference: Reference, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens the page in a window of its own; that nothing went wrong in it is asked at the end."""
    contexts, wrong = [], []

    def make(content: dict[str, Any] | None = None, width: int = 1280, **options: Any) -> Any:
        path = write_explore(content or reference.content, tmp_path / "page.html")
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **options))
        page = contexts[-1].new_page()
        page.set_default_timeout(10_000)
        page.on("console", lambda message: wrong.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: None if request.url == path.as_uri() else wrong.append(request.url))
        page.goto(path.as_uri())
        return page

    yield make
    for context in contexts:
        context.close()
    assert [text for text in wrong if not text.startswith("data:")] == []


def shown(page: Any) -> dict[str, dict[str, float]]:
    """The numbers in the three panels."""
    return {key: {n: _number(page, f"#{key}-{n}") for n in ("total", "return", "reach")} for key in SYSTEMS}


def _number(page: Any, selector: str) -> float:
    element = page.locator(selector)
    value, text = float(element.get_attribute("value")), element.inner_text().replace("−", "-")
    assert text == "–" if np.isnan(value) else float(text) == pytest.approx(value, abs=5e-5, rel=0.06), (
        "the text is the number, rounded"
    )
    return value


def expected(reference: Reference, source: int, depth: int) -> dict[str, dict[str, float]]:
    return {key: reference.numbers(key, source, depth) for key in SYSTEMS}


def assert_equal(page: Any, reference: Reference, source: int, depth: int) -> None:
    ours, theirs = expected(reference, source, depth), shown(page)
    for key in SYSTEMS:
        assert theirs[key] == pytest.approx(ours[key], abs=1e-9, nan_ok=True), f"{key} from {source} at depth {depth}"


def test_it_opens_with_the_numbers_of_python(open_page: Any, reference: Reference) -> None:
    page = open_page()
    assert page.title() == "two cliques – gump explore"
    assert page.locator("#subject").inner_text() == "two cliques · 9 vertices · 13 edges"
    assert page.locator("#depth-value").inner_text() == "10"
    assert_equal(page, reference, reference.content["start"], 10)


def test_clicking_and_sliding_change_the_numbers_to_those_of_python(open_page: Any, reference: Reference) -> None:
    page, seen = open_page(), []
    for source, depth in [(0, 0), (0, 1), (3, 2), (4, 7), (6, 100)]:
        page.locator(f"#bounded [data-vertex='{source}'] .body").click()
        page.locator("#depth").fill(str(depth))
        assert page.locator("#source").input_value() == str(source)
        assert_equal(page, reference, source, depth)
        seen.append(shown(page))
    assert all(a != b for a, b in itertools.pairwise(seen))
    assert seen[-1]["bounded"]["total"] == pytest.approx(1, abs=1e-12)
    assert seen[-1]["gcn"]["total"] < 0.3


def test_numbers_equal_those_of_python_on_a_graph_with_loops_and_parts(open_page: Any) -> None:
    edge_index, num_nodes = random_graph(2, num_nodes=12, num_edges=16)
    reference = Reference(Found(Data(edge_index=edge_index, num_nodes=num_nodes), "random"))
    page = open_page(reference.content)
    for source in range(num_nodes):
        page.locator("#source").select_option(str(source))
        assert_equal(page, reference, source, 10)


def test_numbers_and_coin_of_a_hub_equal_those_of_python(open_page: Any) -> None:
    edge_index, num_nodes = star(199)
    x = torch.randn(num_nodes, 3, generator=torch.Generator().manual_seed(0))
    reference = Reference(Found(Data(x=x, edge_index=edge_index), "star"))
    page = open_page(reference.content)
    for source, depth in [(0, 10), (0, 1), (7, 10), (7, 33)]:
        page.locator("#source").select_option(str(source))
        page.locator("#depth").fill(str(depth))
        assert_equal(page, reference, source, depth)
    assert "hub" not in page.locator("#coin-what").inner_text()
    assert "more than 64 neighbors is a hub" in page.locator("#notes").inner_text()
    page.locator("#source").select_option("0")
    assert "more than 64 neighbors is a hub" in page.locator("#coin-what").inner_text()
    for key in WALKS:
        coin = reference.coin(key, 0)
        assert _number(page, f"#{key}-error") == pytest.approx(float(unitarity_error(coin)), rel=1e-6, abs=1e-13)
        page.locator(f"#{key}-coin").focus()
        for arrow in ("ArrowUp", "ArrowDown", "ArrowDown", "ArrowRight"):  # the first leads nowhere
            page.keyboard.press(arrow)
        said = page.locator("#coin-readout").inner_text().replace("−", "-")
        assert "from 2 to 3: " in said
        assert float(said.split(": ")[1]) == pytest.approx(float(coin[2, 1]), abs=1e-6)
        side = page.locator(f"#{key}-coin").bounding_box()["width"]
        page.locator(f"#{key}-coin").hover(position={"x": side / 199 * 150.5, "y": side / 199 * 20.5})
        said = page.locator("#coin-readout").inner_text().replace("−", "-")
        assert "from 151 to 21: " in said
        assert float(said.split(": ")[1]) == pytest.approx(float(coin[20, 150]), abs=1e-6)


def test_without_a_hub_the_page_does_not_speak_of_any(open_page: Any) -> None:
    assert "hub" not in open_page().locator("body").inner_text()


def test_a_vertex_without_edges_has_no_walk_and_no_coin(open_page: Any, reference: Reference) -> None:
    page = open_page()
    page.locator("#source").select_option("8")
    assert_equal(page, reference, 8, 10)
    assert shown(page)["gcn"]["return"] == 1
    assert page.locator("#coins").inner_text() == ""
    assert "no coin" in page.locator("#coin-what").inner_text()


def test_the_coin_and_its_error_are_those_of_python(open_page: Any, reference: Reference) -> None:
    page = open_page()
    for vertex in (3, 5):
        page.locator("#source").select_option(str(vertex))
        for key in WALKS:
            coin = reference.coin(key, vertex)
            error = float(unitarity_error(coin))
            assert _number(page, f"#{key}-error") == pytest.approx(error, rel=1e-6, abs=1e-15)
            cells = page.locator(f"#{key}-coin td[data-row]")
            assert [float(text.replace("−", "-")) for text in cells.all_inner_texts()] == pytest.approx(
                coin.flatten().tolist(), abs=5e-3
            )
            cells.nth(1).hover()
            said = page.locator("#coin-readout").inner_text().replace("−", "-")
            assert float(said.split(": ")[1]) == pytest.approx(float(coin[0, 1]), abs=1e-6)
            neighbors = reference.line_graph.arcs[1][reference.line_graph.arcs[0] == vertex].tolist()
            assert f"from {neighbors[1]} to {neighbors[0]}: " in said


def test_a_coin_is_read_with_arrow_keys(open_page: Any, reference: Reference) -> None:
    page = open_page()
    page.locator("#source").select_option("3")
    page.locator("#bounded-coin td[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):  # the last leads nowhere
        page.keyboard.press(key)
    said = page.locator("#coin-readout").inner_text().replace("−", "-")
    assert float(said.split(": ")[1]) == pytest.approx(float(reference.coin("bounded", 3)[0, 2]), abs=1e-6)


def test_everything_can_be_done_with_a_keyboard(open_page: Any, reference: Reference) -> None:
    page = open_page()
    focused = "document.activeElement.dataset.vertex ?? document.activeElement.id"
    order = []
    for _ in range(6):
        page.keyboard.press("Tab")
        order.append(page.evaluate(focused))
    start = str(reference.content["start"])
    assert order == ["source", "play", "depth", start, start, start], "one stop in every panel"
    assert page.evaluate("getComputedStyle(document.activeElement.querySelector('.ring')).strokeWidth") == "4px", "focus is visible"
    reached, reach = {int(start)}, [int(start)]
    for vertex in reach:
        for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):
            page.locator(f"#gcn [data-vertex='{vertex}']").focus()
            page.keyboard.press(key)
            if (to := int(page.evaluate(focused))) not in reached:
                reached.add(to)
                reach.append(to)
    assert reached == set(range(reference.num_nodes)), "arrows lead everywhere"
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert_equal(page, reference, 0, 10)
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    here = int(page.evaluate(focused))
    page.keyboard.press("Space")
    assert_equal(page, reference, here, 10)
    page.locator("#depth").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert_equal(page, reference, here, 12)
    page.keyboard.press("End")
    assert_equal(page, reference, here, 100)


def test_what_a_screen_reader_needs_is_there(open_page: Any, reference: Reference) -> None:
    page = open_page()
    assert page.get_by_role("listbox").count() == 3
    vertex = page.get_by_role("listbox", name=re.compile("GCN")).get_by_role("option", name="vertex 3, 4 neighbors")
    vertex.focus()
    page.keyboard.press("Enter")
    assert vertex.get_attribute("aria-selected") == "true"
    assert page.get_by_role("slider", name="Depth").count() == 1
    total = page.locator("#bounded-total").inner_text()
    said = f"Source vertex 3, 4 neighbors, depth 10. Total energy: .*; GUMP, library default {total}."
    expect(page.get_by_role("status")).to_have_text(re.compile(said))  # after a moment
    assert f"At depth 10: GCN {page.locator('#gcn-total').inner_text()}" in page.locator("#chart").get_attribute("aria-label")


def test_a_vertex_that_is_pointed_at_tells_its_energy(open_page: Any, reference: Reference) -> None:
    page = open_page()
    page.locator("#gcn [data-vertex='7'] .body").hover()
    said = page.locator("#readout").inner_text()
    place = reference.line_graph.arcs[0].numpy()
    source = reference.content["start"]
    state = np.linalg.matrix_power(reference.operators["bounded"], 10) @ ((place == source) / (place == source).sum() ** 0.5)
    assert said.startswith("Vertex 7, 3 neighbors: GCN ")
    assert float(said.split("library default ")[1]) == pytest.approx(float((state[place == 7] ** 2).sum()), abs=5e-5)


def test_play_moves_on_and_pause_stops(open_page: Any) -> None:
    page = open_page()
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#depth-value")).to_have_text(re.compile("1[2-9]|[2-9][0-9]"))
    page.get_by_role("button", name="Pause").click()
    depth = page.locator("#depth").input_value()
    page.wait_for_timeout(400)
    assert page.locator("#depth").input_value() == depth
    page.locator("#depth").fill("99")
    page.get_by_role("button", name="Play").click()
    page.get_by_role("button", name="Play").wait_for()
    assert page.locator("#depth").input_value() == "100", "it stops at the end"


def test_motion_is_slow_for_who_wants_little_of_it(open_page: Any) -> None:
    delays = []
    for motion in ("no-preference", "reduce"):
        page = open_page(reduced_motion=motion)
        page.evaluate("() => { window.setInterval = (_, delay) => { document.title = delay; }; }")
        page.get_by_role("button", name="Play").click()
        delays.append(float(page.title()))
    assert delays == [150, 1000], "milliseconds for a step"


def test_the_chart_marks_the_depth_and_takes_a_click(open_page: Any, reference: Reference) -> None:
    page = open_page()
    chart = page.locator("#chart")
    chart.click(position={"x": 46 + (chart.bounding_box()["width"] - 58) * 0.4, "y": 40})
    assert page.locator("#depth-value").inner_text() == "40"
    assert_equal(page, reference, reference.content["start"], 40)
    curve = page.locator("#chart polyline").last.get_attribute("points")
    page.get_by_role("checkbox", name="logarithmic").check()
    assert page.locator("#chart polyline").last.get_attribute("points") != curve


@pytest.mark.parametrize("dataset", ["Ring-20", "CliquePath-20"])
def test_a_narrow_screen_needs_no_scrolling_aside(open_page: Any, dataset: str) -> None:
    page = open_page(exploration(find_graph(dataset), seed=0, max_vertices=50), width=360)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    boxes = [page.locator(f"#{key} svg").bounding_box() for key in SYSTEMS]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 360 and box["width"] > 280 for box in boxes)
    assert boxes[0]["y"] < boxes[1]["y"] < boxes[2]["y"], "panels are below each other"
    page.locator("#bounded [data-vertex='2'] .body").click()
    assert page.locator("#source").input_value() == "2"


def test_dark_mode_changes_colors_at_once_and_text_stays_readable(open_page: Any) -> None:
    page = open_page(color_scheme="light")
    seen = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_timeout(100)
        fill = page.locator("#gcn .body").first.get_attribute("fill")
        cell = page.locator("#bounded-coin td[data-row]").first.evaluate("e => getComputedStyle(e).backgroundColor")
        pairs = page.evaluate(CONTRASTS)
        assert {name: ratio for name, ratio in pairs if ratio < 4.5} == {}
        seen.append((fill, cell, page.evaluate("getComputedStyle(document.body).backgroundColor")))
    assert all(light != dark for light, dark in zip(*seen, strict=True)), seen


CONTRASTS = """() => {
  const part = (x) => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, k) => sum + w * part(c[k]), 0);
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const ground = (e) => { const c = rgb(getComputedStyle(e).backgroundColor); return c.length === 4 && c[3] === 0 ? ground(e.parentElement) : c; };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const texts = [...document.querySelectorAll("h1, h2, h3, p, dt, dd, li, th, td, label, button, select, .ticks span")].filter((e) => e.textContent);
  const found = texts.map((e) => [`${e.tagName} ${e.textContent.slice(0, 20)}`, ratio(rgb(getComputedStyle(e).color), ground(e))]);
  for (const g of document.querySelectorAll("g[data-vertex]")) if (g.querySelector("text"))
    found.push([g.dataset.vertex, ratio(rgb(getComputedStyle(g.querySelector("text")).fill), rgb(g.querySelector(".body").getAttribute("fill")))]);
  return found;
}"""


def test_two_hundred_vertices_and_what_a_step_takes(open_page: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    edge_index = torch.cat([torch.randint(200, (2, 300), generator=generator), torch.arange(200).repeat(2, 1).roll(1, 0)], dim=1)
    edge_index[1, 300:] = (edge_index[0, 300:] + 1) % 200
    content = exploration(Found(Data(edge_index=edge_index, num_nodes=200), "two hundred"), seed=0, max_vertices=200)
    page = open_page(content)
    assert page.locator("#gcn [data-vertex]").count() == 200
    times = page.evaluate(TIMES)
    print(json.dumps({name: f"{value:.2f} ms" for name, value in times.items()}))
    assert page.locator("#depth-value").inner_text() == "100"


TIMES = """() => {
  const slider = document.getElementById("depth"), source = document.getElementById("source");
  const timed = (act) => { const start = performance.now(); act(); document.body.getBoundingClientRect(); return performance.now() - start; };
  const steps = Array.from({ length: 101 }, (_, d) => timed(() => { slider.value = d; slider.dispatchEvent(new Event("input")); }));
  const sources = Array.from({ length: 10 }, (_, v) => timed(() => { source.value = v; source.dispatchEvent(new Event("change")); }));
  const median = (x) => x.sort((a, b) => a - b)[Math.floor(x.length / 2)];
  return { "slider step, median": median(steps), "slider step, slowest": steps[100], "new source, median": median(sources) };
}"""


@pytest.fixture
def gump(own_folder: Path) -> Callable[..., Any]:
    return lambda *arguments: CliRunner().invoke(app, ["explore", *map(str, arguments)])


def test_the_command_writes_a_page_that_works(gump: Any, browser: Any, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("0 1\n1 2\n2 0\n2 3\n")
    result = gump("own.txt", "--out", "folder/page.html", "--seed", "3")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "written to folder/page.html\n")
    page = browser.new_page()
    page.goto((tmp_path / "folder/page.html").as_uri())
    assert page.locator("#subject").inner_text() == "own.txt · 4 vertices · 4 edges"
    assert "with seed 3" in page.locator("#notes").inner_text()
    assert "one-hot degrees, since the graph has none of its own" in page.locator("#notes").inner_text()
    page.close()


def test_the_command_cuts_out_a_neighborhood(gump: Any, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"{v} {v + 1}\n" for v in range(300)))
    refused = gump("long.txt")
    assert refused.exit_code == 1
    [line] = refused.stderr.splitlines()
    assert line.startswith("error: 'graph' must have at most 200 vertices to be drawn (got 301 in long.txt)")
    assert gump("long.txt", "--around", 150, "--hops", 5).exit_code == 0
    assert "5 hops around vertex 150" in (tmp_path / "out/explore.html").read_text()
    assert gump("long.txt", "--around", 150).exit_code == 0
    assert "2 hops around vertex 150" in (tmp_path / "out/explore.html").read_text()
    refused = gump("long.txt", "--hops", 5)
    assert (refused.exit_code, refused.stderr) == (
        1,
        "error: '--hops' must come with '--around', the vertex to begin at (got --hops 5 alone)\n",
    )


def test_help_fits_a_screen_and_has_an_example(gump: Any) -> None:
    lines = gump("--help").output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert any(line.strip().startswith("Example: gump explore ") for line in lines)


def test_serving_answers_with_the_page_until_it_is_interrupted(gump: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers: list[bytes] = []

    def visit(address: str) -> None:
        def ask() -> None:
            with urllib.request.urlopen(address) as answer:
                answers.append(answer.read())

        visitor = threading.Thread(target=ask)
        visitor.start()
        visitors.append(visitor)

    def interrupt(server: Any) -> None:
        server.handle_request()
        raise KeyboardInterrupt

    visitors: list[threading.Thread] = []
    monkeypatch.setattr("webbrowser.open", visit)
    monkeypatch.setattr("http.server.HTTPServer.serve_forever", interrupt)
    result = gump("Ring-20", "--serve")
    visitors[0].join()
    assert result.exit_code == 0, result.output
    assert "serving http://127.0.0.1:" in result.stderr
    assert answers == [(tmp_path / "out/explore.html").read_bytes()]
