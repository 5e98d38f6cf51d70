"""The configuration of a run, which is everything that the run depends on, and its conversion to JSON and back."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any

from vae_tf import schemas
from vae_tf.errors import InputError

# A field with this mark is written only where it differs from its default. Runs and results are found by their
# configuration, so a run without the field has the same configuration as a run from before the field existed.
ONLY_WHERE_SET = "only_where_set"

# Raised when the same configuration trains to other numbers than before; tests/test_experiments.py has golden losses.
NUMERICS = 1


@dataclasses.dataclass(frozen=True)
class Configuration:
    """Everything that a run depends on. Two runs of the same configuration end with the same weights.

    Attributes:
        model: a key of models.MODELS.
        network: a key of networks.NETWORKS.
        latents: d, the size of z.
        likelihood: one of distributions.LIKELIHOODS.
        likelihood_variance: the variance of a Gaussian p(x|z), per pixel or entry of a vector.
        beta: weight of the KL term; None for the model's own default.
        beta_warmup_steps: the number of steps in which beta grows linearly from 0.
        dataset: a key of data.DATASETS, or the path of an .npz file or of a folder of images.
        data_seed: the seed for data that are drawn at random, and for a random split.
        split: which examples are for training and which for scoring, see data.Dataset.find_indices; not "auto".
        steps: the total number of updates.
        batch_size: the number of examples per update.
        optimizer: a key of training.OPTIMIZERS.
        learning_rate: step size of the optimizer.
        clip_gradients: largest norm of a step's gradient, 0 for no limit.
        precision: one of networks.DTYPES.
        jit_compile: whether XLA compiles the step, "auto", "true" or "false".
        seed: the seed for the initial weights, the order of examples and the noise.
        init_from: the export whose weights training starts with, exported/NAME/VERSION, or None.
        active_threshold: a latent is active, in the polarised KL, if its mean posterior variance is below this many
            prior variances.
        data_fingerprint: a digest of the data's content.
        keras: the settings of Keras that change numbers, see networks.KERAS.
        options: {name: value} of this model's options, and of the options that every configuration has.
        optimizer_epsilon: the number that the optimizer adds to the denominator of its update; None for Keras' own.
        learning_rate_schedule: how the learning rate changes over the steps, a key of training.SCHEDULES.
        learning_rate_warmup_steps: the number of steps in which the learning rate grows linearly from 0.
        validate_every: the number of steps between two validations; 0 for none.
        early_stopping: how many validations without improvement end training; 0 for any number.
        jacobian_penalty: one of penalties.PENALTIES, or "none".
        jacobian_weight: what the penalty is multiplied with in the loss.
        jacobian_examples: the number of a batch's examples at which the penalty is computed.
        init_from_weights: the start of the checksum of the weights in `init_from`; None if its card has none.
        numerics: NUMERICS of the vae_tf that trains; 1 where it is not said.
    """

    model: str
    network: str
    latents: int
    likelihood: str
    likelihood_variance: float
    beta: float | None
    beta_warmup_steps: int
    dataset: str
    data_seed: int
    split: str
    steps: int
    batch_size: int
    optimizer: str
    learning_rate: float
    clip_gradients: float
    precision: str
    jit_compile: str
    seed: int
    init_from: str | None
    active_threshold: float
    data_fingerprint: str
    keras: Mapping[str, Any]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    optimizer_epsilon: float | None = dataclasses.field(default=None, metadata={ONLY_WHERE_SET: True})
    learning_rate_schedule: str = dataclasses.field(default="constant", metadata={ONLY_WHERE_SET: True})
    learning_rate_warmup_steps: int = dataclasses.field(default=0, metadata={ONLY_WHERE_SET: True})
    validate_every: int = dataclasses.field(default=0, metadata={ONLY_WHERE_SET: True})
    early_stopping: int = dataclasses.field(default=0, metadata={ONLY_WHERE_SET: True})
    jacobian_penalty: str = dataclasses.field(default="none", metadata={ONLY_WHERE_SET: True})
    jacobian_weight: float = dataclasses.field(default=1.0, metadata={ONLY_WHERE_SET: True})
    jacobian_examples: int = dataclasses.field(default=16, metadata={ONLY_WHERE_SET: True})
    init_from_weights: str | None = dataclasses.field(default=None, metadata={ONLY_WHERE_SET: True})
    numerics: int = dataclasses.field(default=1, metadata={ONLY_WHERE_SET: True})

    def as_json(self) -> dict[str, Any]:
        """Return what config.json and an export's card hold: an entry per field and per option of the models."""
        entries = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)
                   if field.name != "options"
                   and not (ONLY_WHERE_SET in field.metadata and getattr(self, field.name) == field.default)}
        return {**entries, "keras": dict(self.keras), **self.options}

    @classmethod
    def from_json(cls, entries: Mapping[str, Any]) -> "Configuration":
        """Return the configuration that `as_json` wrote; entries that are no fields are options of models.

        Raises:
            InputError: an entry is missing.
        """
        known = {field.name: field for field in dataclasses.fields(cls) if field.name != "options"}
        missing = [name for name, field in known.items()
                   if name not in entries and ONLY_WHERE_SET not in field.metadata]
        if missing:
            raise InputError(f"configuration: expected an entry {missing[0]}; got none")
        return cls(**{name: value for name, value in entries.items() if name in known},
                   options={name: value for name, value in entries.items() if name not in known})


def _make_schema() -> schemas.Schema:
    """Return the kinds of a configuration's entries in JSON, from the annotations of its fields."""
    kinds = {str: schemas.TEXT, int: schemas.WHOLE, float: schemas.NUMBER, Mapping: schemas.OBJECT}
    schema = {}
    for name, hint in typing.get_type_hints(Configuration).items():
        nullable = isinstance(hint, types.UnionType)
        hint = typing.get_args(hint)[0] if nullable else hint
        kind = kinds[hint if hint in kinds else Mapping]
        schema[name] = schemas.or_null(kind) if nullable else kind
    return {name: kind for name, kind in schema.items() if name != "options"}


# What config.json and the recipe of a card hold; entries besides these are options of models.
SCHEMA = _make_schema()
# The values of the entries that are written only where they differ from them. The weights of `init_from` have no such
# value: without the entry, they are not known.
DEFAULTS = {field.name: field.default for field in dataclasses.fields(Configuration)
            if ONLY_WHERE_SET in field.metadata and field.name != "init_from_weights"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of train.py that change no number of a run: where results go, how often, how many runs.

    Attributes:
        name: the name of the run and of the export; None for MODEL_DATASET.
        run_root: the folder of runs.
        export_root: the folder of exports.
        restart: whether to start over in a new folder.
        log_every: the number of steps from one row of history to the next; a row also ends at multiples of
            `checkpoint_every`, `polarised_every` and `validate_every`.
        checkpoint_every: the number of steps from one checkpoint to the next.
        keep_versions: how many versions of an export are kept; None for all.
        polarised_every: the number of steps between two measurements of the polarised KL; 0 measures nothing.
        images_every: the number of steps between two pictures in the TensorBoard logs; 0 draws none.
        data_dir: where TFDS keeps prepared datasets; None for $TFDS_DATA_DIR.
        epochs: length of training in passes over the data; None if `steps` gives the length.
        strategy: how devices share the work, a key of devices.STRATEGIES.
        replicas: how many seeds are trained as one program; None for one.
        sweep_beta: the values of beta that are trained as one program; None for one.
        accept_dark: whether the export takes batches of images of which no pixel is above 1.
        export_weights: which weights are exported, "last" or those of the "best" validation; None for the best with
            early stopping, and otherwise the last.
        memory_limit: the memory in GiB that data, models and training may take; None for what the machine leaves.
    """

    name: str | None = None
    run_root: str = "runs"
    export_root: str = "exported"
    restart: bool = False
    log_every: int = 50
    checkpoint_every: int = 1_000
    keep_versions: int | None = None
    polarised_every: int = 500
    images_every: int = 0
    data_dir: str | None = None
    epochs: float | None = None
    strategy: str = "auto"
    replicas: int | None = None
    sweep_beta: list[str] | None = None
    accept_dark: bool = False
    export_weights: str | None = None
    memory_limit: float | None = None


# The flags of train.py that are no part of a configuration.
SETTINGS = tuple(field.name for field in dataclasses.fields(Settings))
