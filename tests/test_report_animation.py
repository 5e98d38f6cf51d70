"""Moving pictures: what each frame shows, and what the files are."""

import io
import pathlib

import numpy as np
import pytest
from commands import run_evaluate
from PIL import Image

from vae_tf import report
from vae_tf.errors import InputError
from vae_tf.report import animation

LINEAR = pathlib.Path(__file__).parents[1] / "exported/rolinek2018-synthetic_linear-beta_vae"
MOVED = np.random.default_rng(0).random((3, animation.PLACES, 16, 16, 3))


def test_a_frame_shows_every_latent_at_its_place():
    images = [np.full((4, 4, 1), 0.5), np.zeros((4, 4, 1))]
    figure = report.plot_latents(images, ["z3  KL 2.1", "z$0$"], -1.5, "a title")
    first, second = figure.axes
    np.testing.assert_array_equal(first.images[0].get_array(), np.full((4, 4), 0.5))
    assert (first.get_title(), second.get_title(), figure.get_suptitle()) == ("z3  KL 2.1", "z$0$", "a title")
    assert first.images[0].get_clim() == (0, 1) and figure.texts[-1].get_text().startswith("every latent at -1.5 st")


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_animations_go_to_and_fro_for_ever(kind):
    frames = animation.draw_frames(MOVED[:, ::2], np.linspace(-2, 2, 7), ["a", "b", "c"], "title", 30)
    with Image.open(io.BytesIO(animation.animate(frames, kind))) as image:
        shown = []
        for number in range(image.n_frames):
            image.seek(number)
            shown.append(np.asarray(image.convert("RGB"), float))
        assert image.format == kind.upper() and image.info["loop"] == 0 and image.info["duration"] in (90, 0)
    assert len(shown) == 12
    assert all(np.asarray(Image.open(io.BytesIO(frame)).convert("RGBA"))[..., 3].min() == 255 for frame in frames)
    for number in (1, 3):       # on the way back it passes the same places
        there, back, other = shown[number], shown[-number], shown[number + 3]
        assert abs(there - back).mean() < 0.5 * abs(there - other).mean()


def test_files_stay_small_whatever_the_images_are():
    small, large = (animation.make_animations(MOVED[:2, :3], [-2, 0, 2], ["a", "b"], "title", most)
                    for most in (20_000, animation.MOST_BYTES))
    assert sorted(small) == sorted(large) == sorted(report.ANIMATION_FILES)
    assert max(map(len, small.values())) <= 20_000 < max(map(len, large.values())) <= animation.MOST_BYTES


def test_models_of_vectors_are_refused_before_they_are_scored():
    with pytest.raises(InputError, match=r"^--animate: expected a model of images; .* of vectors of 3 numbers$"):
        run_evaluate(f"--export={LINEAR}", "--animate")
    with pytest.raises(InputError, match=r"^--animate: it has an effect only without --codes and --compare"):
        run_evaluate("--compare=a", "--animate")
