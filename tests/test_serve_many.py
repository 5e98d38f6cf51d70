"""Many requests at once, to one served model: a short run of benchmarks/serve_many.py."""

from benchmarks import serve_many


def test_requests_of_eight_threads_get_right_answers_from_flat_memory(tmp_path):
    assert "all answers right" in serve_many.serve(tmp_path, 600)
