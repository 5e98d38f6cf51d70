"""SavedModels: exported/NAME/VERSION/, written whole or not at all, read with TensorFlow alone.

Inputs are what a client has, uint8 images or float32 vectors; preprocessing is inside. NAME/ is laid out as
TensorFlow Serving watches it.
"""

import json
import os
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from vae_tf import distributions, models
from vae_tf.errors import InputError

tfd = tfp.distributions

CARD = pathlib.Path("assets.extra") / "card.json"


class _Functions(tf.Module):
    """A model's functions with fixed signatures, and the variables they read."""

    def __init__(self, model, dataset):
        super().__init__()
        self.weights = [variable.value for variable in model.variables]
        x = tf.TensorSpec((None, *dataset.shape), tf.uint8 if dataset.is_image else tf.float32, name="x")
        z = tf.TensorSpec((None, model.latents), tf.float32, name="z")
        u = [tf.TensorSpec((None, model.u_size), tf.float32, name="u")] if model.u_size else []
        number, seed = tf.TensorSpec((), tf.int32, name="n"), tf.TensorSpec((), tf.int32, name="seed")

        def encode(x, u=None):
            posterior = model.posterior(models.unit_range(x), u)
            outputs = {"mean": posterior.mean()}
            if isinstance(posterior, tfd.MultivariateNormalTriL):
                outputs["scale_tril"] = posterior.scale_tril
            elif model.prior(u) is not None:
                outputs["stddev"] = posterior.stddev()
            if model.u_size:
                prior = model.prior(u)
                outputs.update(prior_mean=prior.mean(), prior_stddev=prior.stddev())
            return outputs

        def decode(z):
            likelihood = model.likelihood(z)
            outputs = {"mean": likelihood.mean()}
            if model.likelihood_layer.kind == "bernoulli":
                outputs["logits"] = likelihood.distribution.logits
            return outputs

        def reconstruct(x, u=None):
            return {"mean": model(models.unit_range(x), u)}

        def sample(n, seed, u=None):
            if u is None:
                z = model.prior().sample(n, seed=tf.stack([seed, 0]))
            else:
                z = model.prior(tf.broadcast_to(u, [n, model.u_size])).sample(seed=tf.stack([seed, 0]))
            return {"images": model.likelihood(z).mean(), "z": z}

        def objective(x, seed, u=None):
            noise = distributions.noise(tf.stack([seed, 0]), tf.shape(x)[0], model.latents)
            return model.objective(models.unit_range(x), u, noise=noise)

        self.encode = tf.function(encode, input_signature=[x, *u])
        self.decode = tf.function(decode, input_signature=[z])
        self.reconstruct = tf.function(reconstruct, input_signature=[x, *u])
        self.objective = tf.function(objective, input_signature=[x, seed, *u])
        if model.prior(tf.zeros((1, model.u_size))) is not None:
            self.sample = tf.function(sample, input_signature=[number, seed, *u])

    def signatures(self):
        named = {name: getattr(self, name).get_concrete_function()
                 for name in ("encode", "decode", "reconstruct", "sample") if hasattr(self, name)}
        return {"serving_default": named["encode"], **named}


def save(folder, model, dataset, card):
    """Write the next version of `folder`; returns its path, exported/NAME/VERSION.

    Args:
        folder: exported/NAME.
        model: a models.VAE.
        dataset: what it was trained on, for the input's shape and dtype.
        card: a dict that describes model, data and recipe, kept in assets.extra/card.json.

    Raises:
        OSError: the folder cannot be written.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    aside = pathlib.Path(tempfile.mkdtemp(prefix=".writing-", dir=folder))   # a dot: servers look at numbers only
    try:
        functions = _Functions(model, dataset)
        tf.saved_model.save(functions, str(aside), signatures=functions.signatures())
        (aside / CARD).parent.mkdir()
        (aside / CARD).write_text(json.dumps(card, indent=2))
        aside.chmod(0o755)
        while True:
            path = folder / str(max(versions(folder), default=0) + 1)
            try:
                os.rename(aside, path)
                return path
            except OSError:
                if not path.exists():    # otherwise another process took that number: try the next
                    raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def versions(folder):
    """The version numbers in exported/NAME, in no order."""
    return [int(path.name) for path in pathlib.Path(folder).glob("[0-9]*") if path.name.isdigit()]


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
    """The version folder written last in `root`, which is exported/, exported/NAME or exported/NAME/VERSION.

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
    return max(found, key=lambda path: (path.stat().st_mtime_ns, int(path.name)))


class Exported:
    """A SavedModel and its card; methods take and give NumPy arrays.

    encode(x, u), decode(z), reconstruct(x, u), sample(n, seed, u) and objective(x, seed, u) return dicts of
    arrays, as the signatures of the same names do; u is for the iVAE alone.
    """

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.card = json.loads((self.path / CARD).read_text())
        self._loaded = tf.saved_model.load(str(self.path))

    def _call(self, name, *args, u=None):
        function = getattr(self._loaded, name, None)
        if function is None:
            raise InputError(f"{name}: a model of kind {self.card['model']} has none")
        if (u is not None) != bool(self.card["u_size"]):
            expected = f"[B, {self.card['u_size']}]" if self.card["u_size"] else "none"
            raise InputError(f"u: a model of kind {self.card['model']} takes {expected}; "
                             f"got {'none' if u is None else np.shape(u)}")
        outputs = function(*args, *([] if u is None else [tf.constant(u, tf.float32)]))
        return {key: value.numpy() for key, value in outputs.items()}

    def encode(self, x, u=None):
        """q(z|x): mean [B, d], and stddev [B, d] or scale_tril [B, d, d]; prior_mean and prior_stddev with u."""
        return self._call("encode", x, u=u)

    def decode(self, z):
        """mean [B, ...] of p(x|z), and logits if it is Bernoulli."""
        return {key: value.numpy() for key, value in self._loaded.decode(tf.constant(z, tf.float32)).items()}

    @property
    def decoder(self):
        """`decode` as a function of tensors, which gradients and `jacobians` go through."""
        return self._loaded.decode

    def reconstruct(self, x, u=None):
        """mean [B, ...] decoded from the posterior mean."""
        return self._call("reconstruct", x, u=u)

    def sample(self, n, seed=0, u=None):
        """n draws from the prior: images [n, ...], z [n, d]; u is [n, |u|] or [1, |u|]."""
        return self._call("sample", tf.constant(n), tf.constant(seed), u=u)

    def objective(self, x, seed=0, u=None):
        """The terms of the training objective per example [B], in nats, for one z each."""
        return self._call("objective", x, tf.constant(seed), u=u)


def load(root):
    """The newest model in `root` as an Exported; see `newest`."""
    return Exported(newest(root))
