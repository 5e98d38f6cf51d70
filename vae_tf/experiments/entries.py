"""The entries of a table in TOML, taken one by one, so that every mistake is one line that says where it is."""

from typing import Any

from vae_tf.errors import InputError

KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table",
         list: "a list"}
REQUIRED: Any = object()


class Entries:
    """The entries of one table in TOML, taken one by one; `done` refuses those that nobody took."""

    def __init__(self, where, data):
        if not isinstance(data, dict):
            raise InputError(f"{where}: expected a table of entries; got {data!r}")
        self.where, self.data, self.known = where, data, []

    def at(self, name):
        return f"{self.where}.{name}" if self.where else name

    def take(self, name, kind, default=REQUIRED):
        self.known.append(name)
        value = self.data.get(name, default)
        if value is REQUIRED:
            raise InputError(f"{self.at(name)}: expected {KINDS[kind]}; got nothing")
        if value is not default and not is_a(value, kind):
            raise InputError(f"{self.at(name)}: expected {KINDS[kind]}; got {value!r}")
        return value

    def texts(self, name):
        values = self.take(name, list, [])
        for value in values:
            if not isinstance(value, str):
                raise InputError(f"{self.at(name)}: expected a list of texts; got {value!r} in it")
        return tuple(values)

    def flags(self, name):
        values = self.texts(name)
        for value in values:
            if not value.startswith("--") or value.startswith("--flagfile"):
                raise InputError(f"{self.at(name)}: expected flags such as --latents=10; got {value!r}")
        return values

    def done(self):
        for name in self.data:
            if name not in self.known:
                raise InputError(f"{self.at(name)}: there is no such entry; choices: {', '.join(self.known)}")


def positive(entries, name, default):
    value = entries.take(name, int, default)
    if value is not None and value < 1:
        raise InputError(f"{entries.at(name)}: expected a whole number above 0; got {value}")
    return value


def is_a(value, kind):
    kinds = (int, float) if kind is float else (kind,)
    return isinstance(value, kinds) and (kind is bool or not isinstance(value, bool))
