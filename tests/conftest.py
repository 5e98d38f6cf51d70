import gc
import os
import pathlib
from unittest import mock

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"      # whatever the shell says: the programs' output is compared
# The tests' matrices are small: more threads only wait for each other. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import pytest
import tensorflow as tf

# As in the programs, products of float32 are computed in float32 on GPUs, too.
tf.config.experimental.enable_tensor_float_32_execution(False)

# Two devices for the tests of strategies; everything else uses the first.
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=2_048)] * 2)


# Tracing makes many objects, and each collection would look at all that TensorFlow has imported, too.
gc.freeze()
gc.set_threshold(10_000, 20, 20)


# Files with tests that fork, send signals, make pipes, or take rights away, which Windows cannot, are left out there.
POSIX = ("forkserver", "from programs import", "import resource", "os.geteuid", "os.kill", "os.mkfifo", "signal.SIG",
         "symlink_to")
collect_ignore = [] if os.name == "posix" else [
    str(path) for path in pathlib.Path(__file__).parent.rglob("test_*.py") if any(each in path.read_text("utf-8")
                                                                                   for each in POSIX)]


# The suite draws the same few cases each time; `pytest --hypothesis-profile=long tests/properties` draws many new ones.
for profile, examples in (("suite", 20), ("long", 2_000)):
    hypothesis.settings.register_profile(profile, max_examples=examples, derandomize=profile == "suite", deadline=None,
                                         database=None, print_blob=True,
                                         suppress_health_check=list(hypothesis.HealthCheck))
hypothesis.settings.load_profile("suite")


# The files that take longest, first: both processes then end at about the same time.
LONGEST = ("test_train", "test_export_signatures", "test_training", "test_training_stops", "test_programs",
           "test_devices", "test_evaluate", "test_models_keras", "test_models_keras_files", "test_experiments_cluster",
           "test_metrics_expansion", "test_extensions", "test_replicas", "test_jacobians", "test_survival",
           "test_penalties", "test_models_keras_refusals", "test_cli", "test_metrics_properties", "test_changed_data",
           "test_export_versions", "test_environments", "test_models_export", "test_hub", "test_runtimes",
           "test_outputs", "test_damaged_files", "test_examples", "test_models", "test_defaults", "test_comparison",
           "test_configured", "test_training_validation", "test_documents", "test_pipes", "test_theory_trained",
           "test_serving")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    addresses = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if addresses:       # pytest-xdist would say that its processes collect other tests
        raise pytest.UsageError(f"a test's name differs from process to process: {addresses[0]}")
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))


@pytest.fixture(autouse=True)
def each_test_leaves_the_environment_as_it_was():
    """tf2onnx turns TensorFlow's logs on, which programs started by later tests would print."""
    with mock.patch.dict(os.environ):
        yield


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The tables, the results and the page of experiments; the tables are in place of the papers'."""
    for name in ("tables", "results"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("vae_tf.experiments.tables.FOLDER", tmp_path / "tables")
    return tmp_path / "tables", tmp_path / "results", tmp_path / "docs" / "results.md"


@pytest.fixture
def registries():
    """The registries, which are afterwards as they were."""
    from vae_tf import data, metrics, models, networks

    kept = (models.MODELS, data.DATASETS, networks.NETWORKS, metrics.METRICS)
    before = [dict(registry) for registry in kept]
    yield kept
    for registry, content in zip(kept, before, strict=True):
        registry.clear()
        registry.update(content)
