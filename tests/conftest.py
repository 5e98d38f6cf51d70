import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The tests' matrices are small: more threads only wait for each other. Before NumPy is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
