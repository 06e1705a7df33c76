import urllib.error
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def own_cache_and_no_network(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own, no folder of data unless a test names one, and no way out."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise urllib.error.URLError("no way out of a test")

    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("GUMP_CACHE", str(cache))
    monkeypatch.delenv("GUMP_DATA", raising=False)
    monkeypatch.setattr("urllib.request.urlopen", refuse)
    return cache


@pytest.fixture
def network_of_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Path]], list[str]]:
    """Lets URLs answer with files; gives the list of what was asked for."""

    def serve(files: dict[str, Path]) -> list[str]:
        asked: list[str] = []
        real = urllib.request.OpenerDirector.open

        def answer(url: str, timeout: float) -> Any:
            asked.append(url)
            if url not in files:
                raise urllib.error.HTTPError(url, 404, "not found", None, None)  # type: ignore[arg-type]
            return real(urllib.request.build_opener(), files[url].as_uri(), timeout=timeout)

        monkeypatch.setattr("urllib.request.urlopen", answer)
        return asked

    return serve
