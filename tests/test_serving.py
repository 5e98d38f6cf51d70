"""What docs/serving.md and the example client say to a server, said to one that answers from the real SavedModel.

The server here speaks TensorFlow Serving's REST and gRPC protocols with its own message classes; TensorFlow Serving
itself is no Python package, and is not run.
"""

import concurrent.futures
import http.server
import importlib.util
import json
import pathlib
import re
import threading

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import json_format
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, predict_pb2, prediction_service_pb2_grpc

from vae_tf import data, export, models

DOCS = pathlib.Path(__file__).parents[1] / "docs"
LATENTS, FACTORS = 10, 5


def program(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


client = program(DOCS / "traversal_client.py")


def exported(folder, model, shape, network="linear", pixel=0):
    """An export of a model with random weights, of the size that the documentation's dSprites models have."""
    model = models.build(model, shape, network=network, latents=LATENTS, u_size=FACTORS,
                         likelihood="bernoulli" if len(shape) == 3 else "gaussian")
    x = np.full((1, *shape), pixel, np.uint8 if len(shape) == 3 else np.float32)
    card = {"model": "any", "u_size": model.u_size, "recipe": {}}
    return export.save(folder, model, data.from_arrays("none", x), card)


def run(model, signature, inputs):
    """A signature on anything that becomes tensors of its types; arrays by name."""
    function = model.signatures[signature or "serving_default"]
    specs = function.structured_input_signature[1]
    outputs = function(**{name: tf.constant(value, specs[name].dtype) for name, value in inputs.items()})
    return {name: value.numpy() for name, value in outputs.items()}


class Rest(http.server.BaseHTTPRequestHandler):
    """TensorFlow Serving's REST API, as its documentation has it: metadata, and predict by columns."""

    def do_GET(self):
        graph, = saved_model_pb2.SavedModel.FromString((self.server.path / "saved_model.pb").read_bytes()).meta_graphs
        described = get_model_metadata_pb2.SignatureDefMap(signature_def=graph.signature_def)
        assert self.path.endswith("/metadata")
        self.answer(200, {"model_spec": {"name": "model", "version": "1"},
                          "metadata": {"signature_def": json_format.MessageToDict(
                              described, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path.endswith(":predict") and set(body) <= {"signature_name", "inputs"}
        try:
            outputs = {name: value.tolist()
                       for name, value in run(self.server.model, body.get("signature_name"), body["inputs"]).items()}
        except (tf.errors.OpError, ValueError, TypeError) as error:
            return self.answer(400, {"error": str(error)})
        self.answer(200, {"outputs": outputs if len(outputs) > 1 else next(iter(outputs.values()))})

    def answer(self, code, message):
        body = json.dumps(message).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Grpc(prediction_service_pb2_grpc.PredictionServiceServicer):
    def __init__(self, model):
        self.model = model

    def Predict(self, request, context):
        inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
        answer = predict_pb2.PredictResponse(model_spec=request.model_spec)
        for name, value in run(self.model, request.model_spec.signature_name, inputs).items():
            answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """An iVAE of images, and the ports on which it is served: (path, REST, gRPC)."""
    path = exported(tmp_path_factory.mktemp("served") / "ivae_dsprites", "ivae", (64, 64, 1))
    rest = http.server.ThreadingHTTPServer(("localhost", 0), Rest)
    rest.path, rest.model = path, tf.saved_model.load(str(path))
    threading.Thread(target=rest.serve_forever, daemon=True).start()
    rpc = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Grpc(rest.model), rpc)
    port = rpc.add_insecure_port("localhost:0")
    rpc.start()
    yield path, rest.server_port, port
    rest.shutdown()
    rest.server_close()
    rpc.stop(None).wait()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / "serving.md").read_text(), re.S)


def test_the_clients_of_the_documentation_get_what_the_model_gives(server):
    path, rest, rpc = server
    image = export.load(path).decode(np.zeros((1, LATENTS)))["mean"]
    ran = 0
    for code in (each for each in blocks("python") if "localhost" in each):
        names = {}
        exec(code.replace("localhost:8501", f"localhost:{rest}").replace("localhost:8500", f"localhost:{rpc}"), names)
        np.testing.assert_allclose(names["image"], image, rtol=1e-6)
        ran += 1
    assert ran == 2
    body, = re.findall(r"curl .*? -d '(.*?)'", (DOCS / "serving.md").read_text(), re.S)
    assert run(export.load(path)._loaded, json.loads(body)["signature_name"], json.loads(body)["inputs"])


def test_the_example_client_draws_the_same_of_a_server_and_of_a_folder(server, tmp_path, capsys):
    path, rest, _ = server
    rows, url = [], f"http://localhost:{rest}/v1/models/ivae_dsprites"
    for signatures, call in (client.served(url), client.local(str(path))):
        assert {"encode", "decode", "traverse", "jacobian"} <= set(signatures)
        assert signatures["encode"][0] == {"x": [-1, 64, 64, 1], "u": [-1, FACTORS]}
        given = client.example(signatures, call, seed=3)
        rows.append([*client.traversals(signatures, call, given)])
    assert [j for j, _ in rows[0]] == list(range(LATENTS))
    model = export.load(path)
    for (j, one), (_, two) in zip(*rows, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
        codes, steps = model.encode(**given), np.linspace(-2, 2, 9)[:, np.newaxis]
        z = np.where(np.arange(LATENTS) == j, steps * codes["prior_stddev"], codes["mean"])
        np.testing.assert_allclose(one, model.decode(z)["mean"], rtol=1e-4, atol=1e-5)
    client.main([url, f"--out={tmp_path / 'rest.png'}", "--latents=0,3"])
    client.main([str(path), f"--out={tmp_path / 'local.png'}", "--latents=0,3"])
    assert (tmp_path / "rest.png").read_bytes() == (tmp_path / "local.png").read_bytes()
    assert capsys.readouterr().out.split() == [str(tmp_path / "rest.png"), str(tmp_path / "local.png")]


def test_the_example_client_takes_ones_own_data_and_says_what_is_wrong(server, tmp_path):
    _, rest, _ = server
    vectors = exported(tmp_path / "vae", "vae", (4,), "mlp_synthetic")
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", data=x)
    signatures, call = client.local(str(vectors))
    (_, moved), = client.traversals(signatures, call, client.example(signatures, call, tmp_path / "x.npz", 2), [1], 3)
    model = export.load(vectors)
    z = np.where(np.arange(LATENTS) == 1, np.float32([[-2], [0], [2]]), model.encode(x[2:])["mean"])
    np.testing.assert_allclose(moved, model.decode(z)["mean"], rtol=1e-4, atol=1e-5)
    client.main([str(vectors), f"--data={tmp_path / 'x.npz'}", f"--out={tmp_path / 'vectors.png'}"])
    assert (tmp_path / "vectors.png").stat().st_size > 1_000

    pixels = np.random.default_rng(0).integers(0, 2, (3, 5, 4), np.uint8)
    for given in (pixels, pixels.astype(bool), pixels / 1.0, 255 * pixels[..., np.newaxis]):
        np.savez(tmp_path / "images.npz", images=given)
        read = client.read_example(tmp_path / "images.npz", 1, False)["x"]
        assert read.dtype == np.uint8
        np.testing.assert_array_equal(read, 255 * pixels[1:2, ..., np.newaxis])
    images = exported(tmp_path / "images", "vae", (8, 8, 1), pixel=255)
    signatures, call = client.local(str(images))
    with pytest.raises(ValueError, match=r"^x: expected uint8 pixels from 0 to 255; got none above 1, .* takes$"):
        call("encode", x=np.eye(8)[np.newaxis, ..., np.newaxis])

    autoencoder = exported(tmp_path / "ae", "ae", (4,))
    np.savez(tmp_path / "small.npz", images=np.zeros((1, 32, 32, 1), np.uint8), u=np.zeros((1, FACTORS)))
    np.savez(tmp_path / "codes.npz", codes=x)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "cut.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:-40])
    url = f"http://localhost:{rest}/v1/models/ivae_dsprites"
    for arguments, message in [([str(vectors), f"--data={tmp_path / 'codes.npz'}"], "images or data; got .* codes$"),
                               ([str(vectors), f"--data={tmp_path / 'cut.npz'}"], "not a zip file"),
                               ([str(vectors), f"--data={tmp_path / 'x.npy'}"], "with an array without a name"),
                               ([url, f"--data={tmp_path / 'x.npz'}"], "images or data, and u as .* with data"),
                               ([url, f"--data={tmp_path / 'small.npz'}"], "tensor x"),
                               ([url, "--latents=3,11"], "latents: expected 0 to 9; got 11"),
                               (["http://localhost:1/v1/models/m"], "refused"),
                               ([str(tmp_path / "none")], "does not exist"),
                               ([str(autoencoder)], "an autoencoder has no prior")]:
        with pytest.raises(SystemExit, match=message):
            client.main(arguments)


def test_the_example_client_goes_around_the_prior_and_draws_any_channels(tmp_path):
    asked = []

    def call(signature, **inputs):
        if signature == "encode":
            return {"mean": np.zeros((1, 1)), "prior_mean": np.full((1, 1), 5.0), "prior_stddev": np.full((1, 1), 0.5)}
        asked.append(inputs["values"])
        return {"images": np.zeros((1, len(inputs["values"]), 8, 8, 2))}

    client.draw([*client.traversals({}, call, {}, steps=3)], tmp_path / "two_channels.png")
    np.testing.assert_allclose(asked, [[4, 5, 6]])
    assert (tmp_path / "two_channels.png").stat().st_size
    np.savez(tmp_path / "mine.npz", images=np.zeros((3, 8, 8, 1), np.uint8))
    with pytest.raises(ValueError, match="--example: expected 0 to 2; got 3"):
        client.read_example(tmp_path / "mine.npz", 3, False)
