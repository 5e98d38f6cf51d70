"""Entries of a file in TOML, taken one by one, so that every mistake is one line that says where it is."""

from typing import Any

from vae_tf.errors import InputError

KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", dict: "a table",
         list: "a list"}
REQUIRED: Any = object()


class Entries:
    """The entries of one table in TOML. `take` returns one of them; `refuse_others` refuses those that nobody took."""

    def __init__(self, where: str, data: Any) -> None:
        if not isinstance(data, dict):
            raise InputError(f"{where}: expected a table of entries; got {data!r}")
        self.where, self.data = where, data
        self.known: list[str] = []

    def name_place(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def take(self, name: str, kind: type, default: Any = REQUIRED) -> Any:
        self.known.append(name)
        value = self.data.get(name, default)
        if value is REQUIRED:
            raise InputError(f"{self.name_place(name)}: expected {KINDS[kind]}; got nothing")
        if value is not default and not is_a(value, kind):
            raise InputError(f"{self.name_place(name)}: expected {KINDS[kind]}; got {value!r}")
        return value

    def take_texts(self, name: str) -> tuple[str, ...]:
        values = self.take(name, list, [])
        for value in values:
            if not isinstance(value, str):
                raise InputError(f"{self.name_place(name)}: expected a list of texts; got {value!r} in it")
        return tuple(values)

    def take_flags(self, name: str) -> tuple[str, ...]:
        values = self.take_texts(name)
        for value in values:
            if not value.startswith("--") or value.startswith("--flagfile"):
                raise InputError(f"{self.name_place(name)}: expected flags such as --latents=10; got {value!r}")
        return values

    def refuse_others(self) -> None:
        for name in self.data:
            if name not in self.known:
                raise InputError(f"{self.name_place(name)}: there is no such entry; choices: {', '.join(self.known)}")


def take_positive(entries: Entries, name: str, default: Any) -> Any:
    value = entries.take(name, int, default)
    if value is not None and value < 1:
        raise InputError(f"{entries.name_place(name)}: expected a whole number above 0; got {value}")
    return value


def is_a(value: Any, kind: type) -> bool:
    kinds = (int, float) if kind is float else (kind,)
    return isinstance(value, kinds) and (kind is bool or not isinstance(value, bool))
