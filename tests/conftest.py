import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The tests' matrices are small: more threads only wait for each other. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import tensorflow as tf

# Two devices for the tests of strategies; everything else uses the first.
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0],
                                           [tf.config.LogicalDeviceConfiguration()] * 2)
