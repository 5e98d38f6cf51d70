"""The page that describes an export on the Hugging Face Hub, made from the export's card."""

from collections.abc import Mapping
from typing import Any

from vae_tf import extras

PAGE = """
# {name}

A `{model}` with {latents} latents, trained by vae_tf, a Keras and TensorFlow Probability implementation of papers on
why variational autoencoders disentangle.

| | |
|---|---|
{facts}

## Load it

```python
from vae_tf import export

model = export.load("hf://{repository}")
codes = model.encode(x)     # x [B, {shape}]{with_u}
```

`vae-tf evaluate --export=hf://{repository}` scores it, `vae-tf train --init_from=hf://{repository}` goes on with its
weights, and `vae-tf pull {repository}` fetches it. They need `pip install 'vae_tf[hub]'`.

## Serve it

The files are a SavedModel with signatures `encode`, `decode`, `sample`, `reconstruct` and others. `vae-tf pull` puts
them into `exported/{name}/1/`, the layout that TensorFlow Serving watches:

```sh
docker run -p 8501:8501 -v "$PWD/exported/{name}:/models/{name}" -e MODEL_NAME={name} tensorflow/serving
```

## Scores

{scores}

## Licence

{licence}
"""


def write_model_card(card: Mapping[str, Any], repository: str, licence: str | None = None) -> str:
    """Return the page, in Markdown below the metadata that the Hub reads.

    Args:
        card: the export's card.
        repository: owner/name.
        licence: the licence of the model, such as apache-2.0, or None.

    Raises:
        InputError: huggingface_hub is not installed.
    """
    hub = extras.import_extra("huggingface_hub", "hub", "repository")
    tags = ["tensorflow", "keras", "disentanglement", "variational-autoencoder", card["model"]]
    metadata = hub.ModelCardData(license=licence, library_name="vae_tf", tags=tags)
    data = card.get("data", {})
    rows = {"data": data.get("name"), "examples in training": data.get("training_examples"),
            "factors": ", ".join(factor.get("name", "") for factor in data.get("factors", ())),
            "beta": card.get("beta"), "likelihood": card.get("likelihood"),
            "network": card.get("recipe", {}).get("network"), "steps": card.get("steps"),
            "seed": card.get("recipe", {}).get("seed"),
            "versions": ", ".join(f"{name} {version}" for name, version in card.get("versions", {}).items())}
    scores = "\n".join(f"| {_escape(name)} | {score:.4g} |" for name, score in card.get("metrics", {}).items()
                       if isinstance(score, int | float))
    u = f"; u [B, {card['u_size']}] is its second argument" if card["u_size"] else ""
    return f"---\n{metadata.to_yaml()}\n---\n" + PAGE.format(
        name=repository.partition("/")[2], repository=repository, model=card["model"], latents=card.get("latents"),
        shape=", ".join(map(str, data.get("shape", ()))), with_u=u,
        facts="\n".join(f"| {name} | {_escape(value)} |" for name, value in rows.items() if value not in (None, "")),
        scores=f"| metric | score |\n|---|---|\n{scores}" if scores else "It has not been scored.",
        licence=f"The model is under the licence {licence}." if licence else "No licence of the model is stated.")


def _escape(value: object) -> str:
    """Return text that stays within a cell of a table and is no HTML."""
    return str(value).replace("|", r"\|").replace("<", "&lt;")
