"""A model's training step as a program: one model, or several of a kind with their weights stacked [S, ...].

    program         what both have in common, and one model
    stacked         several models; one matrix product over a stack of small networks keeps the processor busier than S
                    small ones
    grouped         several models in two stacks, whose steps two threads make side by side if XLA compiles them
"""

from vae_tf.replicas.grouped import stack
from vae_tf.replicas.program import Program, Single, Terms, Watch
from vae_tf.replicas.stacked import Stacked

__all__ = ["Program", "Single", "Stacked", "Terms", "Watch", "stack"]
