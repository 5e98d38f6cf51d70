"""Draw what each latent of a served model does, one row per latent.

    python docs/traversal_client.py http://localhost:8501/v1/models/ivae_dsprites
    python docs/traversal_client.py exported/ivae_dsprites/1 --data=mine.npz --example=3

The first asks TensorFlow Serving over REST, the second runs the same signatures in this process. A client needs NumPy
and Matplotlib, and TensorFlow for a folder; vae_tf it does not need.
"""

import argparse
import json
import re
import sys
import urllib.error
import urllib.request
import zipfile

import numpy as np


def served(url):
    """A model behind TensorFlow Serving: its signatures, {name: (inputs, outputs)}, and a function that calls one."""
    def fetch(url, body=None):
        try:
            with urllib.request.urlopen(url, None if body is None else json.dumps(body).encode(), timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise ValueError(f"{url}: {error.read().decode(errors='replace')}") from None
        except urllib.error.URLError as error:
            raise ValueError(f"{url}: {error.reason}") from None

    def sizes(tensor):
        return [int(dim["size"]) for dim in tensor["tensor_shape"].get("dim", [])]

    described = fetch(f"{url}/metadata")["metadata"]["signature_def"]["signature_def"]
    signatures = {name: ({key: sizes(tensor) for key, tensor in signature["inputs"].items()}, [*signature["outputs"]])
                  for name, signature in described.items() if signature.get("inputs")}

    def call(name, **inputs):
        body = {"signature_name": name, "inputs": {key: np.asarray(value).tolist() for key, value in inputs.items()}}
        outputs, names = fetch(f"{url}:predict", body)["outputs"], signatures[name][1]
        named = {names[0]: outputs} if len(names) == 1 else outputs      # a single output comes without its name
        return {key: np.asarray(value) for key, value in named.items()}

    return signatures, call


def local(folder):
    """The same of a SavedModel in a folder."""
    import tensorflow as tf

    model = tf.saved_model.load(folder)
    signatures = {name: ({key: [size or -1 for size in spec.shape]
                          for key, spec in function.structured_input_signature[1].items()},
                         [*function.structured_outputs]) for name, function in model.signatures.items()}

    def call(name, **inputs):
        function = model.signatures[name]
        specs = function.structured_input_signature[1]
        try:
            outputs = function(**{key: tf.constant(value, specs[key].dtype) for key, value in inputs.items()})
        except tf.errors.OpError as error:
            said = re.search(r"assertion failed: \[(.*?)\]\s*\[\[", error.message, re.DOTALL)
            raise ValueError(said[1] if said else error.message) from None
        return {key: value.numpy() for key, value in outputs.items()}

    return signatures, call


def example(signatures, call, data=None, index=0, seed=0):
    """x [1, ...], and u [1, |u|] if the model takes one: a row of an .npz, or else drawn from the model with u = 0."""
    inputs, _ = signatures["encode"]
    if data:
        return read_example(data, index, "u" in inputs)
    given = {"u": np.zeros((1, inputs["u"][1]), np.float32)} if "u" in inputs else {}
    if "sample" not in signatures:
        raise ValueError("an autoencoder has no prior to draw an example from; give one with --data")
    x = call("sample", n=1, seed=seed, **given)["images"]
    return {"x": np.rint(255 * x).astype(np.uint8) if len(inputs["x"]) == 4 else x, **given}


def read_example(path, index, with_u):
    """x [1, ...] of an .npz with images or data, and u [1, |u|] if that is asked for."""
    arrays = np.load(path)
    names = getattr(arrays, "files", [])        # an .npy has one array, which has no name
    wanted = {"x": "images" if "images" in names else "data", **({"u": "u"} if with_u else {})}
    if not set(wanted.values()) <= set(names):
        raise ValueError(f"--data: expected an .npz with images or data{', and u as the model takes one' * with_u}; "
                         f"got {path} with {', '.join(names) or 'an array without a name'}")
    size = len(arrays[wanted["x"]])
    if not 0 <= index < size:
        raise ValueError(f"--example: expected 0 to {size - 1}; got {index}")
    given = {key: arrays[name][index:index + 1] for key, name in wanted.items()}
    if wanted["x"] == "images":
        given["x"] = as_pixels(given["x"], bool(np.max(arrays["images"]) <= 1))
    return given


def as_pixels(images, are_small):
    """Images [1, H, W] or [1, H, W, C] as uint8; if none of them is above 1, they are masks or floats in [0, 1]."""
    images = images if images.ndim == 4 else images[..., np.newaxis]
    return np.rint((255 if are_small else 1) * images.astype(np.float32)).astype(np.uint8)


def traversals(signatures, call, given, latents=None, steps=9, reach=2.0):
    """(latent, images [T, ...]) for each latent, moved from -reach to reach standard deviations of the prior."""
    codes = call("encode", **given)
    stddev = codes.get("prior_stddev", np.ones_like(codes["mean"]))[0]
    mean = codes.get("prior_mean", np.zeros_like(codes["mean"]))[0]
    for j in range(len(stddev)) if latents is None else latents:
        if not 0 <= j < len(stddev):
            raise ValueError(f"latents: expected 0 to {len(stddev) - 1}; got {j}")
        values = mean[j] + np.linspace(-reach, reach, steps) * stddev[j]
        yield j, call("traverse", latent=j, values=values, **given)["images"][0]


def draw(rows, path):
    """A PNG: images as images, vectors as bars."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    columns = len(rows[0][1])
    figure, axes = plt.subplots(len(rows), columns, figsize=(columns, len(rows)), squeeze=False)
    for row, (latent, images) in zip(axes, rows, strict=True):
        row[0].set_title(f"z{latent}", loc="left", fontsize=8)
        for axis, image in zip(row, images, strict=True):
            axis.set_axis_off()
            if image.ndim == 3:     # of other numbers of channels, the first is drawn
                image = image if image.shape[-1] == 3 else image[..., :1]
                axis.imshow(image, cmap="gray" if image.shape[-1] == 1 else None, vmin=0, vmax=1)
            else:
                axis.bar(np.arange(len(image)), image)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="http://HOST:8501/v1/models/NAME, or a folder exported/NAME/VERSION")
    parser.add_argument("--data", help=".npz with images [N,H,W,C] or data [N,n], and with u [N,|u|] for the iVAE; "
                        "by default the example is drawn from the model, with u = 0")
    parser.add_argument("--example", type=int, default=0, help="which row of --data")
    parser.add_argument("--latents", help="comma-separated; all by default")
    parser.add_argument("--out", default="traversal.png")
    asked = parser.parse_args(argv)
    try:
        signatures, call = (served if asked.model.startswith("http") else local)(asked.model)
        given = example(signatures, call, asked.data, asked.example)
        latents = [int(j) for j in asked.latents.split(",")] if asked.latents else None
        draw([*traversals(signatures, call, given, latents)], asked.out)
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        sys.exit(f"{parser.prog}: error: {' '.join(str(error).split())}")
    print(asked.out)


if __name__ == "__main__":
    main()
