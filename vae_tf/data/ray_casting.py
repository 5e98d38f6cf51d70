"""Cast rays at a solid that stands in a room under a lamp; NumPy, float64, closed forms.

x points right, y up and z towards the camera, which looks down at the solid and moves around it. Points and directions
are [3, R], a column for each ray. A solid is convex, so a ray is within it from one distance to another: a Span.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vae_tf.typing import Booleans, Floats, Integers

PIXELS, RAYS = 64, 3        # an image is PIXELS high and wide, and a pixel is the mean of RAYS x RAYS rays
ROOM = 4.5                  # from the room's middle to each wall; it has no ceiling
DISTANCE, HEIGHT = 4.3, 2.3     # of the camera from the middle and above the floor; the camera stays in the room
TARGET = 0.85               # height of the point above the middle that the camera looks at
VIEW = np.radians(54)       # angle of the image from side to side
LAMP = np.array([-1.6, 4.4, 2.6])
AMBIENT, DIFFUSE = 0.4, 0.58    # brightness without the lamp's light, and how much the lamp adds at most


class Span(NamedTuple):
    """Where each ray is within a solid: distances [R], near < far if the ray meets it, and normals [3, R] at near."""

    near: Floats
    far: Floats
    normal: Floats


class View(NamedTuple):
    """What the camera sees of the empty room; `cosine` is that of the lamp's light with the surface, 0 or more.

    place: of the camera, [3, 1]. direction: of the rays, [3, R]. point: where the rays leave the room, [3, R].
    to_lamp: directions from there to the lamp, [3, R]. on_floor, cosine: [R].
    """

    place: Floats
    direction: Floats
    point: Floats
    to_lamp: Floats
    on_floor: Booleans
    cosine: Floats


def meet_slab(origin: Floats, direction: Floats, axis: int, low: float, high: float) -> Span:
    """Return where rays are between two planes across an axis (0, 1, 2 for x, y, z)."""
    with np.errstate(divide="ignore"):
        ends = (np.array([[low], [high]]) - origin[axis]) / direction[axis]
    normal = np.zeros(direction.shape)
    normal[axis] = -np.sign(direction[axis])
    return Span(ends.min(0), ends.max(0), normal)


def meet_ball(origin: Floats, direction: Floats, radius: float, height: float) -> Span:
    """Return where rays are within a ball around (0, height, 0)."""
    return _solve(origin - np.array([[0], [height], [0]]), direction, radius)


def meet_tube(origin: Floats, direction: Floats, radius: float) -> Span:
    """Return where rays are within an endless upright tube in the middle."""
    upright = np.array([[1], [0], [1]])
    return _solve(origin * upright, direction * upright, radius)


def _solve(p: Floats, d: Floats, radius: float) -> Span:
    """Return where |p + t d| is below the radius."""
    a, b, c = (d * d).sum(0), (p * d).sum(0), (p * p).sum(0) - radius**2
    root = np.sqrt(np.maximum(b * b - a * c, 0))
    near = (-b - root) / a
    return Span(near, (-b + root) / a, (p + near * d) / radius)


def intersect(*spans: Span) -> Span:
    """Return where rays are within all of some solids."""
    near = np.array([span.near for span in spans])
    return Span(near.max(0), np.stack([span.far for span in spans]).min(0), _choose_normals(spans, near.argmax(0)))


def unite(*spans: Span) -> Span:
    """Return where rays are within one of some solids whose union is convex."""
    near = np.array([np.where(span.near < span.far, span.near, np.inf) for span in spans])
    far = np.stack([np.where(span.near < span.far, span.far, -np.inf) for span in spans]).max(0)
    return Span(near.min(0), far, _choose_normals(spans, near.argmin(0)))


def _choose_normals(spans: tuple[Span, ...], chosen: Integers) -> Floats:
    return np.choose(chosen, [span.normal for span in spans])


def meet_cube(origin: Floats, direction: Floats, scale: float) -> Span:
    """Return where rays are within a cube whose edges are 1.5 times the scale."""
    half = 0.75 * scale
    return intersect(meet_slab(origin, direction, 0, -half, half), meet_slab(origin, direction, 1, 0, 2 * half),
                     meet_slab(origin, direction, 2, -half, half))


def meet_cylinder(origin: Floats, direction: Floats, scale: float) -> Span:
    """Return where rays are within an upright cylinder of radius 0.8 and height 1.6, times the scale."""
    return intersect(meet_tube(origin, direction, 0.8 * scale), meet_slab(origin, direction, 1, 0, 1.6 * scale))


def meet_sphere(origin: Floats, direction: Floats, scale: float) -> Span:
    """Return where rays are within a sphere of radius 0.95 times the scale."""
    return meet_ball(origin, direction, 0.95 * scale, 0.95 * scale)


def meet_capsule(origin: Floats, direction: Floats, scale: float) -> Span:
    """Return where rays are within an upright capsule of radius 0.6 and height 2.2, times the scale."""
    radius, top = 0.6 * scale, 1.6 * scale
    middle = intersect(meet_tube(origin, direction, radius), meet_slab(origin, direction, 1, radius, top))
    return unite(middle, meet_ball(origin, direction, radius, radius), meet_ball(origin, direction, radius, top))


SOLIDS: dict[str, Callable[[Floats, Floats, float], Span]] = {
    "cube": meet_cube, "cylinder": meet_cylinder, "sphere": meet_sphere, "capsule": meet_capsule}


def aim_camera(angle: float) -> tuple[Floats, Floats]:
    """Return the camera's place [3, 1], and the directions [3, R] of the rays, row by row, R = (PIXELS x RAYS)^2.

    Args:
        angle: how far the camera has gone around the solid, in radians; the room and the solid stay.
    """
    place = np.array([DISTANCE * np.sin(angle), HEIGHT, DISTANCE * np.cos(angle)])
    ahead = np.array([0, TARGET, 0]) - place
    ahead /= np.linalg.norm(ahead)
    right = np.array([np.cos(angle), 0, -np.sin(angle)])
    count = PIXELS * RAYS
    across = np.tan(VIEW / 2) * ((2 * np.arange(count) + 1) / count - 1)
    x, y_down = np.tile(across, count), np.repeat(across, count)
    directions = ahead[:, np.newaxis] + np.outer(right, x) - np.outer(np.cross(right, ahead), y_down)
    return place[:, np.newaxis], directions / np.linalg.norm(directions, axis=0)


@functools.cache
def see_room(angle: float) -> View:
    """Return what a camera at an angle, see `aim_camera`, sees of the empty room."""
    place, direction = aim_camera(angle)
    sides = np.sign(direction)                              # the walls, on each axis, that a ray goes to
    planes = np.where([[True], [False], [True]], ROOM * sides, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = (planes - place) / direction
    distance[1, direction[1] >= 0] = np.inf                 # up, where there is no ceiling
    first = np.nanargmin(distance, axis=0)
    point = place + np.nanmin(distance, axis=0) * direction
    normal = np.where(first == np.arange(3)[:, np.newaxis], -sides, 0)
    to_lamp = _find_lamp(point)
    return View(place, direction, point, to_lamp, first == 1, _find_cosine(normal, to_lamp))


def _find_lamp(point: Floats) -> Floats:
    """Return the directions from points to the lamp."""
    difference = LAMP[:, np.newaxis] - point
    return difference / np.linalg.norm(difference, axis=0)


def _find_cosine(normal: Floats, to_lamp: Floats) -> Floats:
    return np.maximum((normal * to_lamp).sum(0), 0)


def cast(solid: str, scale: float, angle: float) -> Floats:
    """Return what the colours of floor, walls and solid count in each pixel, float64 [PIXELS, PIXELS, 3], below 1.

    Args:
        solid: a name of SOLIDS.
        scale: the size of the solid.
        angle: where the camera stands, see `aim_camera`.
    """
    view, meet = see_room(angle), SOLIDS[solid]
    shadow = meet(view.point, view.to_lamp, scale)
    cosine = np.where((shadow.near < shadow.far) & (shadow.far > 0), 0, view.cosine)

    span = meet(view.place, view.direction, scale)
    on_solid = span.near < span.far
    point = view.place + span.near[on_solid] * view.direction[:, on_solid]
    cosine[on_solid] = _find_cosine(span.normal[:, on_solid], _find_lamp(point))    # convex: no shadow on itself

    surfaces = np.stack([view.on_floor & ~on_solid, ~view.on_floor & ~on_solid, on_solid], -1)
    weights = surfaces * (AMBIENT + DIFFUSE * cosine)[:, np.newaxis]
    return weights.reshape(PIXELS, RAYS, PIXELS, RAYS, 3).mean((1, 3))
