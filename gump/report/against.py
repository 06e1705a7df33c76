"""Configurations that a reader names, the others against the first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gump.record import Record, format_indices
from gump.report.labels import is_search, look_up
from gump.report.page import read_records
from gump.report.paired import PairedDifference, common_runs, paired_difference
from gump.report.statistics import SELECTED, TEST, VALIDATION, Summary, resolve
from gump.report.table import differing


@dataclass(frozen=True)
class Standing:
    """What a configuration reached, and how much more than the first of those that it is compared with.

    Args:
        summary: Of its runs.
        rule: How the epoch was chosen.
        select: That rule or, where each configuration goes by its own, the one that it names.
        part: Where the measure was taken: ``"test"``, or ``"val"`` where there are points of a search.
        difference: It less the first, on the runs that both have; ``None`` for the first itself.
    """

    summary: Summary
    rule: str
    select: str
    part: str
    difference: PairedDifference | None = None


def against_first(records: Sequence[Sequence[Record]], rule: str = SELECTED) -> list[Standing]:
    """Compares configurations with the first of them, run by run.

    They must be of one dataset, measure and protocol, and each of the others must share two runs with the first. If one is a point of a
    search, all are compared on their validation sets, and no number of a test set is looked at: among the points of a search a choice is to
    be made. The p-values are of each comparison by itself.

    Args:
        records: The runs of each configuration.
        rule: How the epoch that counts was chosen, by default as each configuration says.
    """
    if len(records) < 2:
        raise ValueError(f"'records' must be of two configurations or more (got {len(records)})")
    part = VALIDATION if any(is_search(record) for runs in records for record in runs) else TEST
    first, *others = records
    standings = [_standing(first, rule, part)]
    for runs in others:
        _check_alike(first, runs)
        if (shared := len(common_runs(first, runs, rule, part))) < 2:
            found = " and ".join(f"the runs {format_indices(sorted(record.index for record in group))}" for group in (first, runs))
            raise ValueError(
                f"'records' must share two splits or more, which are runs with one index, one test set and a number by '{rule}' (got "
                f"{shared} of {first[0].title} and {runs[0].title}, which have {found})"
            )
        standings.append(_standing(runs, rule, part, paired_difference(runs, first, rule, part=part)))
    return standings


def read_configuration(folder: str | os.PathLike[str]) -> list[Record]:
    """Reads the runs of one configuration, or of one point of a sweep.

    Args:
        folder: Where their records lie. Those below are of other points, and count only if there are none in the folder itself and all are of one.
    """
    places = sorted({path.parent for path in Path(folder).rglob("*.json")})
    if not places:
        return read_records(folder)
    if Path(folder) not in places and len(places) > 1:
        raise ValueError(
            f"'records' must be folders of one configuration each (got '{folder}', with {len(places)} below it); name one, such as {places[0]}"
        )
    place = Path(folder) if Path(folder) in places else places[0]
    return [Record.load(path) for path in sorted(place.glob("*.json"))]


def _standing(runs: Sequence[Record], rule: str, part: str, difference: PairedDifference | None = None) -> Standing:
    select = ", ".join(dict.fromkeys(resolve(record, rule) for record in runs))
    return Standing(Summary.of(runs, part=part), rule, select, part, difference)


def _check_alike(first: Sequence[Record], others: Sequence[Record]) -> None:
    """Refuses what has no splits in common, whatever the numbers of its runs."""
    a, b = first[0], others[0]
    for table, what in (("dataset", "be of one dataset"), ("protocol", "have the same splits")):
        keys = differing(a.settings.get(table), b.settings.get(table), table)
        same_data = a.provenance.get("data") and a.provenance.get("data") == b.provenance.get("data")
        harmless = {"protocol.num_runs"} | (
            {"dataset.path"} if same_data else set()
        )  # more runs leave the splits of others as they are
        for key in keys:
            if key not in harmless:
                x, y = (look_up(record.settings, key) for record in (a, b))
                raise ValueError(f"'records' must {what} (got {key} {x!r} in {a.title} and {y!r} in {b.title})")
    if (a.metric, a.higher_is_better) != (b.metric, b.higher_is_better):
        raise ValueError(f"'records' must have one measure (got {a.metric!r} in {a.title} and {b.metric!r} in {b.title})")
    prints = {data: record for record in (*first, *others) if (data := record.provenance.get("data"))}
    if len(prints) > 1:
        found = " and ".join(f"{data} in {record.title}" for data, record in prints.items())
        raise ValueError(f"'records' must be of the same data (got the fingerprints {found}); run them again on one of these")
