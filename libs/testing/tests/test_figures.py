"""How figures are summed up and shown; what they are is measured by hand."""

from pathlib import Path

import pytest

from datarecs_testing.figures import Figure, page, quantile, replace_part


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 5), (0.9, 9), (0.99, 10), (1.0, 10), (0.05, 1)]
)
def test_a_quantile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert quantile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], share) == expected


@pytest.mark.parametrize(
    ("more_is_better", "target", "met"),
    [(True, 3.0, True), (True, 3.1, False), (False, 3.0, True), (False, 2.9, False)],
)
def test_the_median_decides_and_the_target_itself_is_met(
    *, more_is_better: bool, target: float, met: bool
) -> None:
    figure = Figure(
        name="x", unit="s", values=(1, 3, 100), target=target, more_is_better=more_is_better
    )
    assert (figure.median, figure.met) == (3, met)


def test_a_page_shows_machine_figures_and_targets() -> None:
    text = page(
        "Queue",
        [
            Figure(name="slow", unit="ms", values=(1234.5,), target=250),
            Figure(name="free", unit="s", values=(0.5, 1.25, 2)),
        ],
        [("cores", "2")],
    )
    assert text.splitlines() == [
        "## Queue",
        "",
        "- cores: 2",
        "",
        "| what | median | lowest | highest | target |",
        "| --- | --: | --: | --: | --: |",
        "| slow | 1,234 ms | 1,234 ms | 1,234 ms | ≤ 250 ms, missed |",
        "| free | 1.25 s | 0.50 s | 2.00 s |  |",
    ]


def test_who_died_has_the_code_as_figure_and_misses_the_target() -> None:
    figure = Figure(name="slow", unit="x", values=(), target=2, death="OUT_OF_MEMORY")
    assert page("Rows", [figure], []).splitlines()[-1] == (
        "| slow | died: OUT_OF_MEMORY |  |  | ≤ 2 x, missed |"
    )


def test_a_part_of_a_page_is_replaced_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Title\n\nWords.\n\n## One\n\nold\n\n## Two\n\nstays\n")
    replace_part(path, "## One\n\nnew\n")
    assert path.read_text() == "# Title\n\nWords.\n\n## Two\n\nstays\n\n## One\n\nnew\n"
    replace_part(tmp_path / "fresh.md", "## One\n\nnew\n")
    assert (tmp_path / "fresh.md").read_text() == "## One\n\nnew\n"
