import pathlib

import pytest

from kvis_operator.cli import values_table
from kvis_operator.cli.values_table import Value

CHART = pathlib.Path(__file__).parents[4] / "helm" / "kvis"


def test_a_leaf_is_described_by_the_comment_above_it() -> None:
    text = "# A section.\ncrds:\n  # -- Install it,\n  # or not.\n  enabled: true\n"
    assert list(values_table.parse(text)) == [Value("crds.enabled", "true", "Install it, or not.")]


def test_a_comment_describes_one_value_only() -> None:
    with pytest.raises(values_table.UndescribedValueError, match=r"image\.tag"):
        list(values_table.parse('image:\n  # -- Name.\n  repository: a\n  tag: ""\n'))


def test_a_section_after_a_deeper_one_has_its_own_path() -> None:
    text = "a:\n  b:\n    # -- C.\n    c: 1\n# -- D.\nd: {}\n"
    assert [value.path for value in values_table.parse(text)] == ["a.b.c", "d"]


def test_only_what_lies_between_the_markers_changes() -> None:
    current = f"before\n{values_table.BEGIN}\nold\n{values_table.END}\nafter\n"
    text = values_table.readme(current, "# -- A.\na: 1\n")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    assert "| `a` | `1` | A. |" in text


def test_a_readme_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        values_table.readme("nothing\n", "# -- A.\na: 1\n")


def test_every_value_of_the_chart_is_described() -> None:
    assert len(list(values_table.parse((CHART / "values.yaml").read_text()))) > 30
