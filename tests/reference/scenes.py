"""Pixels of the scenes by distance functions, one ray at a time, without a closed form of an intersection."""

import colorsys
import math

from vae_tf.data import ray_casting, scenes

FARTHEST, HALVINGS = 20.0, 60


def cube(x, y, z, scale):
    half = 0.75 * scale
    outside = [abs(x) - half, abs(y - half) - half, abs(z) - half]
    return math.hypot(*(max(side, 0) for side in outside)) + min(max(outside), 0)


def cylinder(x, y, z, scale):
    outside = [math.hypot(x, z) - 0.8 * scale, abs(y - 0.8 * scale) - 0.8 * scale]
    return math.hypot(*(max(side, 0) for side in outside)) + min(max(outside), 0)


def sphere(x, y, z, scale):
    return math.hypot(x, y - 0.95 * scale, z) - 0.95 * scale


def capsule(x, y, z, scale):
    return math.hypot(x, y - min(max(y, 0.6 * scale), 1.6 * scale), z) - 0.6 * scale


DISTANCES = cube, cylinder, sphere, capsule


def along(origin, direction, t):
    return [o + t * d for o, d in zip(origin, direction, strict=True)]


def within(origin, direction, distance):
    """A t at which a ray is inside a solid, None if there is none: along a ray, the distance to it is convex."""
    low, high = 0.0, FARTHEST
    for _ in range(HALVINGS):
        left, right = low + 0.382 * (high - low), high - 0.382 * (high - low)
        at_left, at_right = (distance(*along(origin, direction, t)) for t in (left, right))
        if min(at_left, at_right) < 0:
            return left if at_left < 0 else right
        low, high = (low, right) if at_left < at_right else (left, high)
    return None


def halve(low, high, is_before):
    """The t between low and high up to which `is_before` holds."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_before(middle) else (low, middle)
    return low


def slope(distance, point, step=1e-6):
    """The gradient of a distance, by differences."""
    ahead, behind = ([distance(*(p + sign * step * (i == k) for k, p in enumerate(point))) for i in range(3)]
                     for sign in (1, -1))
    return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]


def lit(normal, point):
    """Brightness of a surface in the lamp's light, and the direction to the lamp."""
    to_lamp = [lamp - p for lamp, p in zip(ray_casting.LAMP.tolist(), point, strict=True)]
    to_lamp = [part / math.hypot(*to_lamp) for part in to_lamp]
    cosine = sum(n * part for n, part in zip(normal, to_lamp, strict=True))
    return ray_casting.AMBIENT + ray_casting.DIFFUSE * max(cosine, 0), to_lamp


def in_room(x, y, z):
    return max(abs(x), abs(z)) - ray_casting.ROOM if y > 0 else max(-y, abs(x) - ray_casting.ROOM)


def ray(origin, direction, distance):
    """(surface, brightness) of what a ray sees; surfaces are 0 floor, 1 wall, 2 solid."""
    inside = within(origin, direction, distance)
    if inside is not None:
        entry = halve(0.0, inside, lambda t: distance(*along(origin, direction, t)) > 0)
        point = along(origin, direction, entry)
        return 2, lit(slope(distance, point), point)[0]
    exit = halve(0.0, FARTHEST, lambda t: in_room(*along(origin, direction, t)) < 0)
    point = along(origin, direction, exit)
    gaps = [ray_casting.ROOM - abs(point[0]), point[1], ray_casting.ROOM - abs(point[2])]
    axis = gaps.index(min(gaps))
    normal = [0.0, 0.0, 0.0]
    normal[axis] = 1.0 if axis == 1 else -math.copysign(1, point[axis])
    brightness, to_lamp = lit(normal, point)
    shaded = within(point, to_lamp, distance) is not None
    return 0 if axis == 1 else 1, ray_casting.AMBIENT if shaded else brightness


def scene_pixel(classes, row, column):
    """One pixel of one scene: its three colours as floats, 0 to 255. The world turns here, and the camera stays."""
    hues, (size, shape, orientation) = classes[:3], classes[3:]
    angle = math.radians(-30 + 60 * orientation / 14)
    down = math.atan((ray_casting.HEIGHT - ray_casting.TARGET) / ray_casting.DISTANCE)

    def distance(x, y, z):
        return DISTANCES[shape](x, y, z, 0.7 + 0.5 * size / 7)

    def turn(x, y, z):
        """From the camera, which looks along -z, to the room: tilt down, then go around."""
        y, z = y * math.cos(down) + z * math.sin(down), z * math.cos(down) - y * math.sin(down)
        return [x * math.cos(angle) + z * math.sin(angle), y, z * math.cos(angle) - x * math.sin(angle)]

    origin = [ray_casting.DISTANCE * math.sin(angle), ray_casting.HEIGHT, ray_casting.DISTANCE * math.cos(angle)]
    total = [0.0, 0.0, 0.0]
    for i in range(ray_casting.RAYS):
        for j in range(ray_casting.RAYS):
            across, down_by = (math.tan(ray_casting.VIEW / 2) * ((at + (k + 0.5) / ray_casting.RAYS) / 32 - 1)
                               for at, k in ((column, j), (row, i)))
            surface, brightness = ray(origin, turn(across, -down_by, -1.0), distance)
            colour = colorsys.hsv_to_rgb(hues[surface] / 10, *tuple(scenes.COLOURS.values())[surface])
            total = [t + 255 * brightness * c for t, c in zip(total, colour, strict=True)]
    return [t / ray_casting.RAYS**2 for t in total]
