"""SavedModels: exported/NAME/VERSION/, written whole or not at all, read with TensorFlow alone.

Inputs are what a client has, uint8 images or float32 vectors; preprocessing is inside. NAME/ is laid out as
TensorFlow Serving watches it. assets.extra/ holds what TensorFlow itself does not need: the card, the requests that
warm a server up, and the Keras weights to go on training with.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow_serving.apis import prediction_log_pb2

from vae_tf import distributions, jacobians, models, runs
from vae_tf.errors import InputError

tfd = tfp.distributions

EXTRA = pathlib.Path("assets.extra")
CARD = EXTRA / "card.json"
WARMUP = EXTRA / "tf_serving_warmup_requests"       # TensorFlow Serving looks for this name
WEIGHTS = EXTRA / "model.weights.h5"

# What gives the weights their shapes and their meaning; all else of a recipe may change from run to run.
ARCHITECTURE = ("model", "network", "latents", "likelihood", "prior_mean")

# Folders that no server takes for a version: one being written, one being deleted.
WRITING, REMOVING = ".writing-", ".removing-"


def _required(value, condition, *message):
    """value, or an error of these words and numbers before anything is computed from it."""
    words = [tf.convert_to_tensor(part) for part in message]
    with tf.control_dependencies([tf.raw_ops.Assert(condition=condition, data=words)]):     # vectorized_map takes it
        return tf.identity(value)


def _checked(spec, value):
    """value, or an error that names it: it has another shape than the TensorSpec, no rows, or NaN or infinity."""
    value = tf.ensure_shape(value, spec.shape, name=f"expected_shape_of_{spec.name}")
    value = _required(value, tf.shape(value)[0] > 0, f"{spec.name}: expected at least one row; got none")
    if value.dtype.is_floating:      # not check_numerics: that checks gradients too
        finite = tf.math.is_finite(value)
        value = _required(value, tf.reduce_all(finite), f"{spec.name}: expected finite numbers; got NaN or infinity in",
                          tf.math.count_nonzero(~finite), "places")
    return value


class _Functions(tf.Module):
    """A model's functions with fixed signatures, and the variables they read."""

    def __init__(self, model, dataset):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        x_spec = tf.TensorSpec((None, *dataset.shape), tf.uint8 if dataset.is_image else tf.float32, name="x")
        z_spec = tf.TensorSpec((None, model.latents), tf.float32, name="z")
        u_spec = tf.TensorSpec((None, model.u_size), tf.float32, name="u")
        values_spec = tf.TensorSpec((None,), tf.float32, name="values")
        n, seed, latent = (tf.TensorSpec((), tf.int32, name=name) for name in ("n", "seed", "latent"))

        def ready(x, u):
            """x and u as the model takes them."""
            x = models.unit_range(_checked(x_spec, x))
            if u is not None:
                rows, expected = tf.shape(u)[0], tf.shape(x)[0]
                u = _required(_checked(u_spec, u), rows == expected,
                              "u: expected as many rows as x has,", expected, "; got", rows)
            return x, u

        # Distributions' loc and scale: their mean() and stddev() broadcast, which other runtimes cannot convert.
        def encode(x, u=None):
            x, u = ready(x, u)
            posterior, prior = model.posterior(x, u), model.prior(u)
            outputs = {"mean": posterior.loc}
            if isinstance(posterior, tfd.MultivariateNormalTriL):
                outputs["scale_tril"] = posterior.scale_tril
            elif prior is not None:
                outputs["stddev"] = posterior.scale.diag_part()
            if model.u_size:
                outputs.update(prior_mean=prior.loc, prior_stddev=prior.scale.diag_part())
            return outputs

        def decode(z):
            likelihood = model.likelihood(_checked(z_spec, z))
            outputs = {"mean": likelihood.mean()}
            if model.likelihood_layer.kind == "bernoulli":
                outputs["logits"] = likelihood.distribution.logits
            return outputs

        def reconstruct(x, u=None):
            return {"mean": model.likelihood(model.posterior(*ready(x, u)).loc).mean()}

        def sample(n, seed, u=None):
            n = _required(n, n > 0, "n: expected at least 1; got", n)
            if u is None:
                z = model.prior().sample(n, seed=tf.stack([seed, 0]))
            else:
                rows = tf.shape(u)[0]
                u = _required(_checked(u_spec, u), (rows == 1) | (rows == n), "u: expected 1 row or", n, "; got", rows)
                z = model.prior(tf.broadcast_to(u, [n, model.u_size])).sample(seed=tf.stack([seed, 0]))
            return {"images": model.likelihood(z).mean(), "z": z}

        def traverse(x, latent, values, u=None):
            latent = _required(latent, (latent >= 0) & (latent < model.latents),
                               f"latent: expected 0 to {model.latents - 1}; got", latent)
            z = model.posterior(*ready(x, u)).loc[:, tf.newaxis]                                            # [B, 1, d]
            moved = tf.where(tf.range(model.latents) == latent, _checked(values_spec, values)[:, tf.newaxis], z)
            images = model.likelihood(tf.reshape(moved, [-1, model.latents])).mean()                       # [B T, ...]
            return {"images": tf.reshape(images, tf.concat([tf.shape(moved)[:2], dataset.shape], 0))}

        def jacobian(z):
            return {"jacobian": jacobians.jacobian(model.likelihood, _checked(z_spec, z))}

        def objective(x, seed, u=None):
            noise = distributions.noise(tf.stack([seed, 0]), tf.shape(x)[0], model.latents)
            return model.objective(*ready(x, u), noise=noise)

        u = [u_spec] if model.u_size else []
        self.encode = tf.function(encode, input_signature=[x_spec, *u])
        self.decode = tf.function(decode, input_signature=[z_spec])
        self.reconstruct = tf.function(reconstruct, input_signature=[x_spec, *u])
        self.traverse = tf.function(traverse, input_signature=[x_spec, latent, values_spec, *u])
        self.jacobian = tf.function(jacobian, input_signature=[z_spec])
        self.objective = tf.function(objective, input_signature=[x_spec, seed, *u])
        if model.prior(tf.zeros((1, model.u_size))) is not None:
            self.sample = tf.function(sample, input_signature=[n, seed, *u])

    def signatures(self):
        names = ("encode", "decode", "reconstruct", "sample", "traverse", "jacobian")
        named = {name: getattr(self, name).get_concrete_function() for name in names if hasattr(self, name)}
        return {"serving_default": named["encode"], **named}


def save(folder, model, dataset, card, keep=None):
    """Write the next version of `folder`; returns its path, exported/NAME/VERSION.

    Args:
        folder: exported/NAME.
        model: a models.VAE.
        dataset: what it was trained on, for the input's shape and dtype.
        card: a dict that describes model, data and recipe, kept in assets.extra/card.json.
        keep: how many versions to leave of this one and those before it; None leaves all.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _aside(folder) as aside:
        functions = _Functions(model, dataset)
        signatures = functions.signatures()
        tf.saved_model.save(functions, str(aside), signatures=signatures)
        (aside / EXTRA).mkdir()
        (aside / CARD).write_text(json.dumps(card, indent=2))
        model.save_weights(aside / WEIGHTS)
        _write_warmup(aside / WARMUP, folder.name, signatures)
        aside.chmod(0o755)
        path = _claim(folder, aside)
    if keep:
        older = (version for version in versions(folder) if version < int(path.name))
        for old in sorted(older, reverse=True)[keep - 1:]:
            with contextlib.suppress(FileNotFoundError):      # another export was first to delete it
                os.rename(folder / str(old), removed := folder / f"{REMOVING}{old}-{os.getpid()}")
                shutil.rmtree(removed)
    return path


@contextlib.contextmanager
def _aside(folder):
    """A folder beside the versions to write one in; deleted in the end unless it was renamed.

    Its writer holds a lock on it, which the system drops when the process dies. So what a killed export left behind is
    told from what is still being written, and deleted here.
    """
    with _locked(folder):
        for left in [*folder.glob(f"{WRITING}*"), *folder.glob(f"{REMOVING}*")]:
            with _locked(left, wait=False) as dead:
                if dead:
                    shutil.rmtree(left, ignore_errors=True)
        aside = pathlib.Path(tempfile.mkdtemp(prefix=WRITING, dir=folder))
        held = contextlib.ExitStack()
        held.enter_context(_locked(aside))
    with held:
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder, wait=True):
    """Hold a folder's lock; gives whether it is held: no file system need have locks."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        held = True
    except OSError:
        held = False
    try:
        yield held
    finally:
        os.close(descriptor)


def _claim(folder, aside):
    """Rename `aside` to the next free version; returns its path."""
    while True:
        path = folder / str(max(versions(folder), default=0) + 1)
        try:
            os.rename(aside, path)
            return path
        except OSError:
            if not path.exists():    # otherwise another process took that number: try the next
                raise


def _write_warmup(path, name, signatures):
    """A request per signature, of one example, which a server runs before it lets clients at the version."""
    with tf.io.TFRecordWriter(str(path)) as records:
        for signature, function in signatures.items():
            log = prediction_log_pb2.PredictionLog()
            request = log.predict_log.request
            request.model_spec.name, request.model_spec.signature_name = name, signature
            for spec in filter(None, tf.nest.flatten(function.structured_input_signature)):      # None: no u
                some = np.full([size or 1 for size in spec.shape], spec.name == "n", spec.dtype.as_numpy_dtype)
                request.inputs[spec.name].CopyFrom(tf.make_tensor_proto(some))
            records.write(log.SerializeToString())


def versions(folder):
    """The version numbers in exported/NAME, in no order."""
    return [int(path.name) for path in pathlib.Path(folder).glob("[0-9]*") if path.name.isdigit()]


def read_card(path):
    """What exported/NAME/VERSION says of itself, a dict."""
    return json.loads((pathlib.Path(path) / CARD).read_text())


def describe(path, **more):
    """Add to the card of exported/NAME/VERSION, or replace what it says of the same."""
    card = {**read_card(path), **more}
    runs.write_whole(path / CARD, lambda file: file.write(json.dumps(card, indent=2).encode()))


def load_weights(model, path, config, dataset):
    """Set a freshly built model's weights to those of exported/NAME/VERSION.

    Args:
        model: a models.VAE.
        path: the version.
        config: the configuration that the model was built from.
        dataset: what it is going to be trained on.

    Raises:
        InputError: the export is of another kind of model, naming what differs, or has no weights beside it.
    """
    path, card = pathlib.Path(path), read_card(path)
    there = {**{f"--{name}": card["recipe"].get(name) for name in ARCHITECTURE},
             "shape of an example": tuple(card["data"]["shape"]), "size of u": card["u_size"]}
    here = {**{f"--{name}": config[name] for name in ARCHITECTURE},
            "shape of an example": dataset.shape, "size of u": model.u_size}
    differ = [f"{name}: {there[name]} there, {here[name]} now" for name in here if there[name] != here[name]]
    if differ:
        raise InputError(f"init_from: expected an export of the same kind of model; {path} differs "
                         f"({'; '.join(differ)})")
    if not (path / WEIGHTS).exists():
        raise InputError(f"init_from: expected an export with its Keras weights; {path} has no {WEIGHTS}")
    model.load_weights(path / WEIGHTS)


def check_writable(folder):
    """Raise InputError unless `folder` could be written, leaving nothing behind."""
    folder = pathlib.Path(folder)
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        raise InputError(f"expected a folder that can be written, got {folder} ({existing}: {error.strerror})"
                         ) from None


def newest(root):
    """The newest version in `root`: exported/ (of the model written last), exported/NAME or exported/NAME/VERSION.

    Raises:
        InputError: there is none.
    """
    root = pathlib.Path(root)
    if (root / "saved_model.pb").exists():
        return root
    found = [path.parent for pattern in ("*/saved_model.pb", "*/*/saved_model.pb") for path in root.glob(pattern)
             if path.parent.name.isdigit() and (path.parent / CARD).exists()]
    if not found:
        raise InputError(f"expected a folder that holds an exported model, such as exported/NAME; got {root}, "
                                f"which {'holds none' if root.exists() else 'does not exist'}")
    latest = {path.parent: path for path in sorted(found, key=lambda path: int(path.name))}.values()
    return max(latest, key=lambda path: (path / "saved_model.pb").stat().st_mtime_ns)


class Exported:
    """A SavedModel and its card; methods take and give NumPy arrays.

    encode(x, u), decode(z), reconstruct(x, u), sample(n, seed, u), traverse(x, latent, values, u), jacobian(z) and
    objective(x, seed, u) do what the signatures of the same names do; u is for the iVAE alone. They raise InputError
    for inputs that do not fit.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.card = read_card(self.path)
        self._loaded = tf.saved_model.load(str(self.path))
        self._specs = {"seed": tf.TensorSpec((), tf.int32)}          # objective takes one, and is no signature
        for signature in self._loaded.signatures.values():
            self._specs.update(signature.structured_input_signature[1])

    def _call(self, name, **inputs):
        """A function on arrays by name."""
        function = getattr(self._loaded, name, None)
        if function is None:
            raise InputError(f"{name}: a model of kind {self.card['model']} has none")
        outputs = function(**{key: self._tensor(key, value) for key, value in inputs.items()})
        return {key: value.numpy() for key, value in outputs.items()}

    def _call_with(self, name, u, **inputs):
        """A function that takes u too if the model is an iVAE."""
        if (u is not None) != bool(self.card["u_size"]):
            expected = f"[B, {self.card['u_size']}]" if self.card["u_size"] else "none"
            raise InputError(f"u: a model of kind {self.card['model']} takes {expected}; "
                             f"got {'none' if u is None else np.shape(u)}")
        return self._call(name, **inputs, **({} if u is None else {"u": u}))

    def _tensor(self, name, value):
        spec, value = self._specs[name], np.asarray(value)
        fits = (value.dtype == np.uint8 if spec.dtype == tf.uint8
                else np.can_cast(value.dtype, spec.dtype.as_numpy_dtype, "same_kind"))
        if not (fits and spec.shape.is_compatible_with(value.shape)):
            raise InputError(f"{name}: expected {spec.dtype.name} of shape {tuple(spec.shape)}; "
                             f"got {value.dtype} of shape {value.shape}")
        if not np.isfinite(value).all():
            raise InputError(f"{name}: expected finite numbers; got {np.sum(~np.isfinite(value))} NaN or infinite")
        return tf.constant(value, spec.dtype)

    def encode(self, x, u=None):
        """q(z|x): mean [B, d], and stddev [B, d] or scale_tril [B, d, d]; prior_mean and prior_stddev with u."""
        return self._call_with("encode", u, x=x)

    def decode(self, z):
        """mean [B, ...] of p(x|z), and logits if it is Bernoulli."""
        return self._call("decode", z=z)

    @property
    def decoder(self):
        """`decode` as a function of tensors, which gradients and `jacobians` go through."""
        return self._loaded.decode

    def reconstruct(self, x, u=None):
        """mean [B, ...] decoded from the posterior mean."""
        return self._call_with("reconstruct", u, x=x)

    def sample(self, n, seed=0, u=None):
        """n draws from the prior: images [n, ...], z [n, d]; u is [n, |u|] or [1, |u|]."""
        return self._call_with("sample", u, n=n, seed=seed)

    def traverse(self, x, latent, values, u=None):
        """images [B, T, ...] decoded from the posterior mean with one latent, 0 to d-1, set to each of `values` [T]."""
        return self._call_with("traverse", u, x=x, latent=latent, values=values)

    def jacobian(self, z):
        """jacobian [B, n, d] of decode's mean, in data units per latent unit; see jacobians.jacobian."""
        return self._call("jacobian", z=z)

    def objective(self, x, seed=0, u=None):
        """The terms of the training objective per example [B], in nats, for one z each."""
        return self._call_with("objective", u, x=x, seed=seed)


def load(root):
    """The newest model in `root` as an Exported; see `newest`."""
    return Exported(newest(root))
