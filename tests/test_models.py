import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from cases import CASES, FACTORS, IDS, KINDS, LATENTS, build, dataset, shake
from tensorflow.python.autograph.utils import ag_logging

from vae_tf import distributions, models, networks, objectives
from vae_tf.errors import InputError

NOISE = distributions.draw_noise((7, 11), 8, LATENTS)


def noise_for(model):
    """Noise whose first columns are NOISE, as many as the model takes."""
    more = distributions.draw_noise((8, 11), 8, model.noise_size)
    return tf.concat([NOISE, more[:, LATENTS:]], 1)


def vector_model(name, **more):
    return build(name, "mlp_synthetic", (3,), "gaussian", more)


def batch(shape=(3,)):
    data = dataset(shape)
    i = np.arange(8)
    return models.scale_to_unit_range(tf.constant(data.images_at(i))), tf.constant(data.u_at(i))



def assert_same_terms(a, b, names=("loss", "reconstruction", "kl")):
    for name in names:
        np.testing.assert_allclose(a[name], b[name], rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_distributions_have_an_example_per_batch_entry(case):
    name, _, shape, _, _ = case
    model = build(*case)
    x, u = batch(shape)
    posterior = model.posterior(x, u)
    assert posterior.batch_shape == (8,) and posterior.event_shape == (LATENTS,)
    likelihood = model.likelihood(posterior.mean())
    assert likelihood.batch_shape == (8,) and likelihood.event_shape == shape
    prior = model.prior(u)
    assert (prior is None) == (name == "ae")
    assert prior is None or prior.event_shape == (LATENTS,)
    terms = model.objective(x, u, noise=noise_for(model))
    assert all(term.shape == (8,) and np.isfinite(term).all() for term in terms.values())
    assert model(x, u).shape == x.shape


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_eager_and_graph_one_and_many_agree(case):
    model = build(*case)
    x, u = batch(case[2])
    encode = tf.function(lambda x, u: (model.posterior(x, u).mean(), model(x, u)))
    # bfloat16 keeps 8 bits; float32 kernels differ by blocking with the batch's size.
    tolerance = {"rtol": 0.1, "atol": 0.02} if case[4].get("dtype") else {"rtol": 1e-4, "atol": 1e-5}
    for eager, graph in zip((model.posterior(x, u).mean(), model(x, u)), encode(x, u), strict=True):
        np.testing.assert_allclose(eager, graph, **tolerance)
    many = model.posterior(x, u).mean()
    for i in (0, 7):
        np.testing.assert_allclose(model.posterior(x[i:i + 1], u[i:i + 1]).mean()[0], many[i], **tolerance)


def test_beta_vae_at_beta_one_is_the_vae():
    vae, beta_vae = vector_model("vae"), vector_model("beta_vae", beta=1.0)
    x, _ = batch()
    assert_same_terms(vae.objective(x, noise=NOISE), beta_vae.objective(x, noise=NOISE))


def test_beta_weighs_the_kl():
    model = vector_model("beta_vae", beta=3.0)
    x, _ = batch()
    for given, beta in ((None, 3.0), (0.0, 0.0), (1.5, 1.5)):
        terms = model.objective(x, noise=NOISE, beta=given)
        np.testing.assert_allclose(terms["loss"], terms["reconstruction"] + beta * terms["kl"], rtol=1e-6)


def test_full_covariance_with_diagonal_scale_is_the_beta_vae():
    diagonal, full = vector_model("beta_vae", beta=2.0), vector_model("full_covariance_vae", beta=2.0)
    x, _ = batch()
    full.decoder.set_weights(diagonal.decoder.get_weights())
    *trunk, mean_w, mean_b, log_variance_w, log_variance_b = diagonal.encoder.get_weights()
    lower_w, lower_b = (np.zeros(shape, np.float32) for shape in ((20, 6), 6))
    where = np.diag(tfp.math.fill_triangular(tf.range(6.0)).numpy()).astype(int)
    lower_w[:, where], lower_b[where] = log_variance_w / 2, log_variance_b / 2
    full.encoder.set_weights([*trunk, mean_w, mean_b, lower_w, lower_b])
    assert_same_terms(diagonal.objective(x, noise=NOISE), full.objective(x, noise=NOISE))


@pytest.mark.parametrize("estimator", objectives.TC_ESTIMATORS)
def test_beta_tcvae_with_weights_one_is_the_single_sample_vae(estimator):
    vae, tcvae = vector_model("vae"), vector_model("beta_tcvae", beta=1.0, tc_estimator=estimator)
    x, _ = batch()
    terms = tcvae.objective(x, noise=NOISE)
    posterior = vae.posterior(x)
    z = distributions.reparameterise(posterior, NOISE)
    single_sample_kl = posterior.log_prob(z) - vae.prior().log_prob(z)
    np.testing.assert_allclose(terms["kl"], single_sample_kl, rtol=1e-4, atol=1e-4)
    expected = vae.objective(x, noise=NOISE)["reconstruction"] + single_sample_kl
    np.testing.assert_allclose(terms["loss"], expected, rtol=1e-5)


def test_beta_tcvae_weighs_the_total_correlation_alone():
    model = vector_model("beta_tcvae", beta=5.0)
    x, _ = batch()
    t = model.objective(x, noise=NOISE)
    np.testing.assert_allclose(t["loss"], t["reconstruction"] + t["mutual_information"] + 5 * t["total_correlation"]
                               + t["dimension_wise_kl"], rtol=1e-5)


@pytest.mark.parametrize("prior_mean", ["zero", "learned"])
def test_ivae_with_a_standard_prior_and_constant_u_is_the_vae(prior_mean):
    vae, ivae = vector_model("vae"), vector_model("ivae", prior_mean=prior_mean)
    x, u = batch()
    ivae.decoder.set_weights(vae.decoder.get_weights())
    first, *rest = vae.encoder.get_weights()
    u_rows = np.random.default_rng(0).standard_normal((FACTORS, first.shape[1])).astype(np.float32)
    constant = np.full((8, FACTORS), 0.5, np.float32)
    rest[0] = rest[0] - constant[0] @ u_rows            # the bias takes up what a constant u adds
    ivae.encoder.set_weights([np.concatenate([first, u_rows]), *rest])
    *hidden, w, b = ivae.prior_network.get_weights()
    ivae.prior_network.set_weights([*hidden, np.zeros_like(w), np.zeros_like(b)])
    plain, conditional = vae.objective(x, noise=NOISE), ivae.objective(x, constant, noise=NOISE)
    for a, b in zip(plain.values(), conditional.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)
    assert not np.allclose(vae.objective(x, noise=NOISE)["kl"], ivae.objective(x, u, noise=NOISE)["kl"])


def test_ae_decodes_its_point():
    model = vector_model("ae")
    x, _ = batch()
    terms = model.objective(x, noise=NOISE)
    np.testing.assert_array_equal(terms["loss"], terms["reconstruction"])
    np.testing.assert_allclose(terms["loss"], -model.likelihood(model.posterior(x).mean()).log_prob(x), rtol=1e-6)


def test_linear_decoder_objective_against_its_expectation():
    # The reconstruction's expectation over z has a closed form when the decoder is affine.
    model = build("beta_vae", "linear", (6,), "gaussian", {"beta": 2.0})
    x, _ = batch((6,))
    posterior = model.posterior(x)
    D, b = (w.astype(np.float64) for w in model.decoder.get_weights())
    mean, variance = posterior.mean().numpy().astype(float), posterior.variance().numpy().astype(float)
    exact = ((x.numpy() - mean @ D - b) ** 2).sum(1) + variance @ (D**2).sum(1) + 3 * np.log(np.pi)
    drawn = tf.function(lambda t: model.objective(x, noise=distributions.draw_noise([0, t], len(x), LATENTS)))
    samples = np.stack([drawn(tf.constant(t))["reconstruction"] for t in range(2000)]).astype(float)
    error = samples.std(0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(0) - exact) < 5 * error).all()


def test_mixed_precision_agrees_with_float32():
    for name in models.MODELS:
        network = "conv_locatello" if name in KINDS else "mlp_mnist"        # the others are VAEs to a network
        single = shake(build(name, network, (16, 16, 1), "bernoulli", {}))
        other = shake(build(name, network, (16, 16, 1), "bernoulli", {}, seed=5), seed=1)
        mixed = build(name, network, (16, 16, 1), "bernoulli", {"dtype": "mixed_bfloat16"})
        mixed.set_weights(single.get_weights())
        x, u = batch((16, 16, 1))
        a, b, c = (model.objective(x, u, noise=noise_for(model)) for model in (single, mixed, other))
        # bfloat16 rounds to 2^-8 per product; a dozen layers deep, sums of 256 pixels stay within 1 %.
        np.testing.assert_allclose(a["reconstruction"], b["reconstruction"], rtol=0.01)
        assert np.abs(a["reconstruction"] / c["reconstruction"] - 1).max() > 0.03
        assert all(term.dtype == tf.float32 for term in b.values())


@pytest.mark.parametrize(("heads", "pixels", "likelihood"), [
    ("float32", "mixed_float16", "bernoulli"), ("float32", "mixed_bfloat16", "gaussian"),
    ("mixed_float16", "mixed_float16", "bernoulli")])
def test_networks_of_ones_own_in_mixed_precision(heads, pixels, likelihood):
    """Their outputs may be of 16 bits. They ended with a traceback, or with an error about x or noise."""
    def make(kind, heads, pixels):
        def dense(units, dtype, seed):
            return keras.layers.Dense(units, dtype=dtype, kernel_initializer=keras.initializers.GlorotUniform(seed))

        x, z, first, *others = keras.Input((9,)), keras.Input((LATENTS,)), *kind.list_heads(LATENTS)
        encoder = keras.Model(x, [dense(units, heads, seed)(x) for seed, units in enumerate((first, *others))])
        discriminator = [keras.Model(z, dense(1, heads, 3)(z))] if kind is models.FactorVAE else []
        return kind(encoder, keras.Model(z, dense(9, pixels, 4)(z)), distributions.Likelihood(likelihood),
                    *discriminator)

    x = tf.constant(np.random.default_rng(0).random((8, 9)), tf.float32)
    for kind in (models.AE, models.FullCovarianceVAE, models.FactorVAE):
        mixed, single = make(kind, heads, pixels), make(kind, "float32", "float32")
        found, expected = (model.objective(x, noise=noise_for(model)) for model in (mixed, single))
        assert all(term.dtype == tf.float32 for term in found.values())
        # Outputs of size 1 are rounded to 2^-8, and so are weights and inputs of two layers.
        np.testing.assert_allclose(found["reconstruction"], expected["reconstruction"], rtol=0.05)


def test_models_are_keras_models_that_save_weights(tmp_path):
    model, other = vector_model("vae"), build("vae", "mlp_synthetic", (3,), "gaussian", {}, seed=5)
    model.save_weights(tmp_path / "w.weights.h5")
    other.load_weights(tmp_path / "w.weights.h5")
    assert isinstance(model, keras.Model)
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


POLICIES = [case for case in CASES if case[1] in ("linear", "mlp_mnist") or case[:2] == ("ivae", "mlp_synthetic")]


@pytest.mark.parametrize("policy", ["mixed_float16", "float64"])
@pytest.mark.parametrize("case", POLICIES, ids=[IDS[CASES.index(case)] for case in POLICIES])
def test_a_policy_of_keras_changes_no_number_of_a_model(case, policy):
    name, _, shape, _, _ = case
    x, u = batch(shape)
    given = [x, u] if name == "ivae" else x
    expected = build(*case).predict(given, verbose=0)
    keras.config.set_dtype_policy(policy)
    try:
        model = build(*case)
        assert model.likelihood(NOISE).mean().dtype == tf.float32
        np.testing.assert_array_equal(model.predict(given, verbose=0), expected)
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize(("arguments", "message"), [
    ({"name": "wae"}, "expected one of ae, vae, .*got 'wae'"),
    ({"name": "vae", "beta": 2.0}, "vae has none; got 2.0; models with beta: beta_vae"),
    ({"name": "ivae", "u_size": 0}, "ivae needs data with u"),
])
def test_bad_arguments_name_the_choices(arguments, message):
    with pytest.raises(InputError, match=message):
        models.build(**{"shape": (3,), "network": "linear", "latents": 2, "u_size": 2, **arguments})


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_whole_numbers_are_no_images(dtype):
    """They were encoded without being scaled."""
    model, images = build("vae", "mlp_mnist", (8, 8, 1), "bernoulli", {}), dataset((8, 8, 1)).images_at(np.arange(8))
    calls = [model.posterior, model.encode, lambda x: model.objective(x, noise=NOISE)]
    for call in calls if dtype == np.uint8 else [*calls, model]:
        with pytest.raises(InputError, match=f"^x: expected images of floats [^\n]*; got {np.dtype(dtype).name}; "):
            call(images.astype(dtype))
    np.testing.assert_allclose(model(images), model(images / np.float32(255)), rtol=1e-5)


def test_a_missing_u_is_named():
    model, (x, _) = vector_model("ivae"), batch()
    for call in (lambda: model.posterior(x), lambda: model(x), lambda: model.prior()):
        with pytest.raises(InputError, match=r"^u: IVAE sees u; expected floats \[B, 2\]; got none$"):
            call()
    with pytest.raises(InputError, match=r"^encoder: expected a network of x and u, which IVAE sees; got one of x"):
        models.IVAE(vector_model("vae").encoder, model.decoder, model.likelihood_layer, model.prior_network)


def test_a_prior_network_without_an_input_is_built():
    model = vector_model("ivae")
    made = models.IVAE(model.encoder, model.decoder, model.likelihood_layer,
                       keras.Sequential([keras.layers.Dense(LATENTS)]))
    assert made.prior_network.input_shape == (None, model.u_size) and made.prior_mean == "zero"

    class Unknown(keras.Model):
        def call(self, u):
            return u

    with pytest.raises(InputError, match=r"^prior_network: expected a keras.Model whose inputs .*; got .*Unknown"):
        models.IVAE(model.encoder, model.decoder, model.likelihood_layer, Unknown())


@pytest.mark.parametrize("layers", [[], [keras.layers.Conv2D(3, 2)], [keras.layers.Reshape((9,))]])
def test_a_prior_network_that_takes_no_u_is_refused(layers):
    model = vector_model("ivae")
    with pytest.raises(InputError, match=r"^prior_network: expected a network from u \[B, 2\]; got [^\n]*$"):
        models.IVAE(model.encoder, model.decoder, model.likelihood_layer, keras.Sequential(layers))


def test_a_model_of_a_list_of_x_alone_is_that_of_x():
    model, x = vector_model("vae"), np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(model([x]), model(x))


@pytest.mark.parametrize(("u_size", "outputs"), [(2, 1), (2, 3 * LATENTS), (1, LATENTS)])
def test_a_prior_network_of_other_sizes_is_named(u_size, outputs):
    model = vector_model("ivae")
    with pytest.raises(InputError, match=rf"^prior_network: .* have the sizes \[{u_size}, {outputs}\]$"):
        models.IVAE(model.encoder, model.decoder, model.likelihood_layer,
                    networks.build_prior_network(u_size, outputs, 0))


@pytest.mark.parametrize("name", models.MODELS)
def test_every_distribution_becomes_a_graph_without_a_warning(name, monkeypatch):
    warned = []
    monkeypatch.setattr(ag_logging, "warning", lambda message, *args: warned.append(message % args))
    model = vector_model(name)
    x, u = batch()

    @tf.function
    def means(x, u):
        posterior, prior = model.posterior(x, u), model.prior(u)
        return posterior.mean(), model.likelihood(posterior.mean()).mean(), None if prior is None else prior.mean()

    means(x, u)
    assert not warned


@pytest.mark.parametrize(("split", "u", "said"), [
    ("hold_out:a>1", {"names": ["a"]}, True), ("random", {"names": ["a"]}, False), ("hold_out:a>1", None, False)])
def test_an_ivae_says_that_training_has_not_seen_held_out_u(split, u, said):
    remarks = models.IVAE.list_remarks({"u_size": 1, "u": u, "recipe": {"split": split}})
    assert "sees u" in remarks[0] and [line for line in remarks if "has not seen such u" in line] == remarks[1:]
    assert (len(remarks) == 2) == said and not models.VAE.list_remarks({"u_size": 0, "recipe": {"split": split}})
