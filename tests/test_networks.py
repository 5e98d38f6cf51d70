import numpy as np
import pytest

from vae_tf import networks
from vae_tf.errors import InputError

SHAPES = {"conv_bhowal": (64, 64, 3), "conv_faces": (64, 64, 1), "conv_locatello": (64, 64, 1)}


def hidden_widths(model):
    """Units or filters of the layers with a kernel, front to back, heads included."""
    return [layer.get_config().get("units") or layer.get_config().get("filters")
            for layer in model.layers if any(w.path.endswith("kernel") for w in layer.weights)]


def activations(model):
    found = []
    for layer in model.layers:
        config = layer.get_config()
        if "activation" in config:
            activation = config["activation"]
            found.append(activation if isinstance(activation, str) else activation["config"])
    return found


# Widths as the papers' tables print them (SPEC of each in networks.NETWORKS); 10 latents, heads mean and log-variance.
TABLE = {
    "linear": ([10, 10], [4096], (64, 64, 1)),
    "mlp_synthetic": ([60, 40, 20, 10, 10], [60, 40, 20, 6], (6,)),
    "mlp_mnist": ([400, 10, 10], [500, 500, 784], (28, 28, 1)),
    "mlp_dsprites": ([1200, 1200, 10, 10], [1200, 1200, 1200, 4096], (64, 64, 1)),
    "mlp_mixture": ([256, 200, 200, 10, 10], [200, 200, 256, 784], (784,)),
    "mlp_tcl": ([100, 100, 100, 100, 10, 10], [100, 100, 5], (5,)),
    "conv_locatello": ([32, 32, 64, 64, 256, 10, 10], [256, 1024, 64, 32, 32, 1], (64, 64, 1)),
    "conv_bhowal": ([32, 32, 64, 64, 256, 10, 10], [64, 64, 64, 64, 32, 3], (64, 64, 3)),
    "conv_faces": ([32, 32, 64, 64, 512, 10, 10], [512, 64, 64, 32, 32, 1], (64, 64, 1)),
}


@pytest.mark.parametrize("name", networks.NETWORKS)
def test_layers_are_those_of_the_papers_table(name):
    encoder_widths, decoder_widths, shape = TABLE[name]
    pair = networks.build(name, shape, 10, (10, 10))
    assert sorted(hidden_widths(pair.encoder)) == sorted(encoder_widths)
    assert hidden_widths(pair.decoder) == decoder_widths
    assert pair.decoder.output_shape == (None, *shape)
    # heads and output are linear
    assert activations(pair.encoder)[-2:] == ["linear", "linear"] and activations(pair.decoder)[-1] == "linear"


def test_ivae_widens_the_layer_where_u_joins():
    pair = networks.build("conv_locatello", (64, 64, 1), 30, (30, 30), u_size=5)
    assert 261 in hidden_widths(pair.encoder)                                # bonheme Table 1
    x, u = np.zeros((2, 64, 64, 1), np.float32), np.eye(5, dtype=np.float32)[:2]
    mean, _ = pair.encoder([x, u])
    assert not np.allclose(mean[0], mean[1])                                 # u reaches the heads


@pytest.mark.parametrize("name", networks.NETWORKS)
@pytest.mark.parametrize("u_size", [0, 4])
def test_same_seed_same_weights(name, u_size):
    shape = SHAPES.get(name, (6,))
    one, same, other = (networks.build(name, shape, 2, (2, 2), u_size, seed) for seed in (3, 3, 4))
    for part in ("encoder", "decoder"):
        weights = [[w.numpy() for w in getattr(pair, part).weights if w.path.endswith("kernel")]
                   for pair in (one, same, other)]
        for a, b, c in zip(*weights, strict=True):
            np.testing.assert_array_equal(a, b)
            assert not np.allclose(a, c)


def test_xtanh():
    np.testing.assert_allclose(networks.xtanh(np.float32(2.0)), np.tanh(2.0) + 0.2, rtol=1e-6)


def test_prior_network_has_three_layers_of_fifty():
    prior = networks.build_prior_network(5, 30)
    assert hidden_widths(prior) == [50, 50, 50, 30]
    slopes = [layer.negative_slope for layer in prior.layers if hasattr(layer, "negative_slope")]
    assert slopes == pytest.approx([0.1] * 3)


@pytest.mark.parametrize("name", [name for name in networks.NETWORKS if name.startswith("conv")])
def test_images_of_any_size_are_padded_and_cut_back(name):
    size = 64 if name == "conv_faces" else 32
    odd, even = (networks.build(name, (*shape, 3), 2, (2, 2)) for shape in ((size - 5, size - 1), (size, size)))
    x, z = (np.random.default_rng(0).uniform(size=shape).astype(np.float32) for shape in ((2, size - 5, size - 1, 3),
                                                                                           (2, 2)))
    # The same layers with the same weights: 2 rows above and 3 below, no column before and 1 behind.
    for mine, other in zip(odd.encoder(x), even.encoder(np.pad(x, [(0, 0), (2, 3), (0, 1), (0, 0)])), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(odd.decoder(z), even.decoder(z)[:, 2:-3, :-1], rtol=1e-5, atol=1e-6)


def test_shape_that_does_not_fit_names_the_choices():
    with pytest.raises(InputError, match=r"conv_locatello needs images.*\(28,\).*mlp_mnist"):
        networks.build("conv_locatello", (28,), 2, (2, 2))
    with pytest.raises(InputError, match=r"expected one of linear, .*got 'mlp'"):
        networks.build("mlp", (28, 28, 1), 2, (2, 2))


@pytest.mark.parametrize(("network", "shape", "pixels"), [("mlp_mnist", (6, 6, 1), "bfloat16"),
                                                          ("mlp_synthetic", (6,), "float32")])
def test_heads_and_outputs_of_vectors_are_computed_in_float32(network, shape, pixels):
    pair = networks.build(network, shape, 2, (2, 2), dtype="mixed_bfloat16")
    *_, last, reshape = pair.decoder.layers
    assert last.compute_dtype == pixels and reshape.output.dtype == "float32"
    assert [layer.compute_dtype for layer in pair.encoder.layers[-2:]] == ["float32", "float32"]
    assert {output.dtype for output in pair.encoder.outputs} == {"float32"}
