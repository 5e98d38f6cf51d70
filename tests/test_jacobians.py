import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from cases import build, dataset
from tensorflow.python.framework.ops import gradient_registry

from vae_tf import export, jacobians, networks
from vae_tf.errors import InputError
from vae_tf.metrics import derivatives, dto
from vae_tf.penalties import compute_penalty

tfd = tfp.distributions

SHAPES = {"conv_bhowal": (16, 16, 1), "conv_faces": (16, 16, 1), "conv_locatello": (16, 16, 1),
          "mlp_dsprites": (6, 6, 1), "mlp_mnist": (6, 6, 1)}


def codes(rows=4, d=3, dtype="float64"):
    return tf.constant(np.random.default_rng(0).standard_normal((rows, d)), dtype)


def decoder(network, dtype="float64", d=3):
    """A decoder with random weights, batch statistics included, in float64 so that its derivatives are exact."""
    built = networks.build(network, SHAPES.get(network, (5,)), d, (d, d)).decoder
    inputs = keras.Input((d,), dtype=dtype)
    with keras.saving.custom_object_scope({"xtanh": networks.xtanh}):
        clone = keras.models.clone_model(built, input_tensors=inputs, clone_function=lambda layer: type(
            layer).from_config({**layer.get_config(), "dtype": dtype}))
    rng = np.random.default_rng(1)
    clone.set_weights([w * rng.uniform(0.8, 1.2, w.shape) + rng.uniform(-0.02, 0.02, w.shape)
                       for w in built.get_weights()])
    return clone


def by_tape(f, z):
    """J of TensorFlow's own reverse mode."""
    with tf.GradientTape() as tape:
        tape.watch(z)
        x = f(z)
        x = tf.reshape(x, [len(z), int(np.prod(x.shape[1:]))])
    return tape.batch_jacobian(x, z).numpy()


def by_differences(f, z, h=1e-5):
    """J by central differences: their error is h^2 f'''/6 + eps f / h."""
    return np.stack([(f(z + step) - f(z - step)).numpy().reshape(len(z), -1) / (2 * h)
                     for step in h * np.eye(z.shape[1])], axis=2)


@pytest.mark.parametrize("network", networks.NETWORKS)
def test_every_network_against_the_tape_and_differences(network):
    f, z = decoder(network), codes()
    tape = by_tape(f, z)
    scale = np.abs(tape).max()
    assert scale > 0
    for mode in (None, "forward", "reverse"):
        np.testing.assert_allclose(jacobians.jacobian(f, z, mode=mode) / scale, tape / scale, atol=1e-13)
    np.testing.assert_allclose(tape / scale, by_differences(f, z) / scale, atol=1e-8)


@pytest.mark.parametrize(("gradient", "layer"), [
    ("ResizeBilinearGrad", lambda x: tf.image.resize(x, (4, 4))), ("SoftsignGrad", tf.nn.softsign),
    ("ResizeBicubicGrad", lambda x: tf.image.resize(x, (8, 8), "bicubic"))])
def test_decoders_that_permit_no_forward_mode(gradient, layer):
    """J was that of the path around the layer alone, or there was an error of TensorFlow's."""
    z, W = codes(dtype="float32"), codes(4, dtype="float32")

    def f(z):
        return layer(tf.reshape(tf.tanh(z @ tf.transpose(W)), (-1, 2, 2, 1))) + tf.reduce_sum(z, 1)[:, None, None, None]

    J, called = by_tape(f, z), tf.function(f)
    np.testing.assert_allclose(J, by_differences(f, z, 1e-2), atol=1e-3)
    np.testing.assert_allclose(jacobians.jacobian(f, z), J, rtol=1e-5)
    exported = tf.function(lambda z: jacobians.jacobian(called, z), input_signature=[tf.TensorSpec((None, 3))])
    np.testing.assert_allclose(exported(z), J, rtol=1e-5)
    for call in (lambda: jacobians.jacobian(called, z, mode="forward"), lambda: compute_penalty("l1", f, z, z),
                 lambda: derivatives.compile_curvatures(called, 1.0, 3)):
        with pytest.raises(InputError, match=f"^decoder: expected [^\n]* the gradient {gradient}, [^\n]*$"):
            call()


def test_all_gradients_that_tensorflow_takes_as_constant_are_known():
    constant = {name for name in gradient_registry.list() if gradient_registry.lookup(name) is None}
    assert {name for name in constant if name.endswith(("Grad", "Gradient"))} - {"StopGradient", "TensorArrayGrad"} == \
        jacobians.TAKEN_AS_CONSTANT


def test_float32_is_float64_rounded():
    z = codes()
    single = jacobians.jacobian(decoder("conv_locatello", "float32"), tf.cast(z, tf.float32)).numpy()
    double = jacobians.jacobian(decoder("conv_locatello"), z).numpy()
    assert single.dtype == np.float32
    error = np.linalg.norm(single - double) / np.linalg.norm(double)
    assert error < 6 * 16 * np.finfo(np.float32).eps           # six layers, sums of up to 16 x 64 = 2^10 terms


def test_mixed_precision_agrees_with_float32():
    z = codes(dtype="float32")
    single, mixed = (networks.build("mlp_mnist", (6, 6, 1), 3, (3, 3), dtype=dtype).decoder
                     for dtype in ("float32", "mixed_bfloat16"))
    mixed.set_weights(single.get_weights())
    a, b = jacobians.jacobian(single, z), jacobians.jacobian(mixed, z)
    assert b.dtype == tf.float32
    # Each of two layers rounds its inputs, weights and tangents to 2^-9. (A relu's kink would count for more.)
    assert np.linalg.norm(a - b) / np.linalg.norm(a) < 2 * 3 * 2**-9


@pytest.mark.parametrize("network", ["mlp_synthetic", "conv_faces"])
def test_eager_graph_and_xla_one_and_many_agree(network):
    f, z = decoder(network), codes()
    J, G = jacobians.jacobian(f, z).numpy(), jacobians.gram(f, z).numpy()
    tolerance = {"rtol": 1e-9, "atol": 1e-12 * np.abs(J).max()}
    for compiled in (True,) if network == "conv_faces" else (False, True):      # exports have it in a graph
        both = tf.function(lambda z: (jacobians.jacobian(f, z), jacobians.gram(f, z, chunk=3)), jit_compile=compiled)
        for value, wanted in zip(both(z), (J, G), strict=True):
            np.testing.assert_allclose(value, wanted, **tolerance)
    np.testing.assert_allclose(jacobians.jacobian(f, z[1:2])[0], J[1], **tolerance)


@pytest.mark.parametrize(("n", "d", "mode"), [(5, 3, "forward"), (3, 3, "forward"), (2, 3, "reverse"),
                                              (1, 4, "reverse"), (1, 1, "forward"), (4, 1, "forward")])
def test_mode_follows_the_shape(n, d, mode, monkeypatch):
    W = np.random.default_rng(2).standard_normal((d, n))
    forward = []
    tangents = jacobians._compute_tangents
    monkeypatch.setattr(jacobians, "_compute_tangents", lambda f, z: forward.append(1) or tangents(f, z))
    z = codes(d=d)
    J = jacobians.jacobian(lambda z: tf.sin(z) @ W, z)
    assert bool(forward) == (mode == "forward")
    np.testing.assert_allclose(J, W.T * np.cos(z)[:, np.newaxis], rtol=1e-14)


@pytest.mark.parametrize(("network", "shape", "likelihood"), [("mlp_mnist", (6, 6, 1), "bernoulli"),
                                                              ("mlp_synthetic", (5,), "gaussian_learned")])
def test_models_and_exports_mean_and_natural(network, shape, likelihood, tmp_path):
    model = build("vae", network, shape, likelihood, {})
    exported = export.Exported(export.save(tmp_path, model, dataset(shape), {"u_size": 0, "model": "vae"}))
    z = codes(dtype="float32")
    mean, natural = (by_tape(f, z) for f in (lambda z: model.likelihood(z).mean(), model.decoder))
    for f in (model.likelihood, exported.decoder):
        np.testing.assert_allclose(jacobians.jacobian(f, z), mean, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(jacobians.jacobian(f, z, output="natural"), natural, rtol=1e-4, atol=1e-6)
    compiled = tf.function(lambda z: jacobians.gram(exported.decoder, z), jit_compile=True)(z)
    np.testing.assert_allclose(compiled, np.swapaxes(mean, 1, 2) @ mean, rtol=1e-4, atol=1e-6)
    if likelihood == "bernoulli":       # d p / dz = p (1 - p) d logit / dz
        p = exported.decode(z)["mean"].reshape(len(z), -1, 1)
        np.testing.assert_allclose(mean, p * (1 - p) * natural, rtol=1e-4, atol=1e-6)


def test_the_natural_parameter_of_probabilities_is_their_logit():
    z, W = tf.constant([[0.3, -0.2]]), tf.constant([[1.0, 2.0], [3.0, -1.0]])

    def decode(**given):
        return tfd.Independent(tfd.Bernoulli(**given), 1)

    by_logits = jacobians.jacobian(lambda z: decode(logits=z @ W), z, output="natural")
    by_probs = jacobians.jacobian(lambda z: decode(probs=tf.sigmoid(z @ W)), z, output="natural")
    bare = jacobians.jacobian(lambda z: tfd.Bernoulli(logits=z @ W), z, output="natural")
    np.testing.assert_allclose(by_logits[0], tf.transpose(W))
    np.testing.assert_allclose(by_probs, by_logits, rtol=1e-5)      # float32
    np.testing.assert_allclose(bare, by_logits)


@pytest.mark.parametrize(("family", "known"), [
    (lambda each: tfd.Independent(tfd.Independent(tfd.ContinuousBernoulli(each[:, None]), 1), 1), True),
    (tfd.MultivariateNormalDiag, True),
    (lambda each: tfd.Independent(tfd.Poisson(each), 1), False), (lambda each: tfd.LogNormal(each, 1.0), False)])
def test_the_natural_parameter_of_other_families(family, known):
    """Of families that it does not know, it gave the mean."""
    z, W = tf.constant([[0.3, 0.2]]), tf.constant([[1.0, 2.0, 0.1], [3.0, 1.0, 0.2]])
    if known:
        J = jacobians.jacobian(lambda z: family(z @ W), z, output="natural")
        np.testing.assert_allclose(tf.reshape(J, [3, 2]), tf.transpose(W), rtol=1e-5)
    else:
        with pytest.raises(InputError, match=r"^f: expected [^\n]*; got (Poisson|LogNormal); [^\n]*$"):
            jacobians.jacobian(lambda z: family(z @ W), z, output="natural")


@pytest.mark.parametrize("mode", jacobians.MODES)
def test_a_jacobian_has_the_type_of_the_output(mode):
    J = jacobians.jacobian(lambda z: tf.cast(2 * z, tf.float16), tf.ones((1, 2)), mode=mode)
    assert J.dtype == tf.float16


@pytest.mark.parametrize(("rows", "chunk"), [(1, 32), (7, 3), (6, 3), (0, 2)])
def test_gram_is_the_product_of_the_jacobian_in_any_chunks(rows, chunk):
    f, z = decoder("mlp_synthetic"), codes(rows)
    J = jacobians.jacobian(f, z).numpy() if rows else np.zeros((0, 5, 3))
    np.testing.assert_allclose(jacobians.gram(f, z, chunk=chunk), np.einsum("bni,bnj->bij", J, J), rtol=1e-12)
    unknown = tf.function(lambda z: jacobians.gram(f, z, chunk=chunk),
                          input_signature=[tf.TensorSpec((None, 3), tf.float64)])
    np.testing.assert_allclose(unknown(z), np.einsum("bni,bnj->bij", J, J), rtol=1e-12)


def test_gram_is_summed_in_float64():
    columns = tf.constant([[1e4, 1.0], [1e4, -1.0]])        # whose product, 1e8 - 1, float32 rounds to 1e8
    G = jacobians.gram(lambda z: z @ tf.transpose(columns), tf.ones((1, 2)))
    assert G.dtype == tf.float64
    np.testing.assert_array_equal(G[0], [[2e8, 0], [0, 2]])
    columns = tf.constant([[1e4, 1e4], [1.0, -1.0]])
    G = jacobians.gram(lambda z: z @ tf.transpose(columns), tf.ones((1, 2)))
    np.testing.assert_array_equal(G[0], [[1e8 + 1, 1e8 - 1], [1e8 - 1, 1e8 + 1]])


def test_latents_that_the_decoder_ignores_have_zero_columns():
    z = codes()
    J = jacobians.jacobian(lambda z: tf.tanh(z[:, :2] * [[1.0, 2.0]]), z, mode="forward").numpy()
    assert (J[:, :, 2] == 0).all() and (J[:, [0, 1], [0, 1]] != 0).all()
    constant = jacobians.jacobian(lambda z: tf.ones((len(z), 4), z.dtype), z)
    np.testing.assert_array_equal(constant, np.zeros((4, 4, 3)))


def test_nan_weights_are_an_error_where_they_would_be_a_score():
    f = decoder("mlp_synthetic")
    f.set_weights([np.full_like(w, np.nan) for w in f.get_weights()])
    with pytest.raises(InputError, match="gram: expected finite values"):
        dto(jacobians.gram(f, codes()))


@pytest.mark.parametrize(("z", "options", "message"), [
    (np.zeros(3, np.float32), {}, r"z: expected floats of shape \[B, d\]; got float32 of shape \(3,\)"),
    (np.zeros((2, 3), int), {}, "z: expected floats"),
    (np.zeros((2, 3)), {"mode": "backward"}, "mode: expected one of forward, reverse; got 'backward'"),
    (np.zeros((2, 3)), {"output": "logits"}, "output: expected one of mean, natural; got 'logits'"),
])
def test_bad_input_names_the_choices(z, options, message):
    for function in (jacobians.jacobian, jacobians.gram):
        with pytest.raises(InputError, match=message):
            function(lambda z: z, z, **options)


def test_the_refusal_of_rows_repeats_what_keras_says_is_wrong():
    f = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    with pytest.raises(InputError, match=r"z: expected rows that f takes; .* ValueError: Input 0 .* to have value 2"):
        jacobians.jacobian(f, np.zeros((4, 3), np.float32))
