from fake_configs import tiny_config

from gump.experiment.record_folder import Run, configs_of, runs_of


def test_the_runs_of_configurations_are_those_of_their_protocols_or_those_asked_for() -> None:
    two, three = (tiny_config(protocol={"num_runs": number}) for number in (2, 3))
    assert runs_of([two, three]) == [Run(two, 0), Run(two, 1), Run(three, 0), Run(three, 1), Run(three, 2)]
    assert runs_of([two, three], iter([1, 0])) == [Run(two, 1), Run(two, 0), Run(three, 1), Run(three, 0)]
    assert runs_of([two], []) == []
    assert configs_of(runs_of([two])) == [two]
