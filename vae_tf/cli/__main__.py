"""`python -m vae_tf.cli` prints the flags of both programs."""

from absl import flags

from vae_tf import extensions
from vae_tf.cli import define_evaluate_flags, define_train_flags, write_help

extensions.load()
for program, define in (("train.py", define_train_flags), ("evaluate.py", define_evaluate_flags)):
    defined = flags.FlagValues()
    print(write_help(program, f"The flags of {program}; this module runs nothing.", define(defined), defined), "\n")
