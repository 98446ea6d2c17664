"""Result files keep what other tools measured."""

from bench import bench_file


def put(folder, source, figures, rows=()):
    return bench_file.merge("x", source=source, command=source, rows=rows, figures=figures, folder=folder)


def test_a_new_file_has_the_agreed_fields(tmp_path):
    assert set(put(tmp_path, "a", {"speed": 2.0})) == {"machine", "date", "command", "rows", "figures"}


def test_figures_of_others_stay(tmp_path):
    put(tmp_path, "demo", {"lost": 0})
    assert put(tmp_path, "engine", {"speed": None})["figures"] == {"lost": 0, "speed": None}


def test_a_rerun_replaces_its_own_rows_only(tmp_path):
    put(tmp_path, "demo", {}, rows=[{"n": 1}])
    put(tmp_path, "engine", {}, rows=[{"n": 2}, {"n": 3}])
    put(tmp_path, "engine", {}, rows=[{"n": 4}])
    assert bench_file.read("x", tmp_path)["rows"] == [
        {"source": "demo", "n": 1},
        {"source": "engine", "n": 4},
    ]


def test_a_missing_file_reads_as_empty(tmp_path):
    assert bench_file.read("x", tmp_path)["figures"] == {}
