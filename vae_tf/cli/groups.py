"""Flags under headings, each checked as it is parsed."""

import math

from absl import flags

from vae_tf.errors import InputError


class _Group:
    """Defines flags under headings."""

    def __init__(self, values):
        self.values, self.names = values, {}

    def start(self, heading):
        self.heading = heading
        self.names.setdefault(heading, [])

    def _define(self, define, name, *args, **options):
        define(name, *args, flag_values=self.values, module_name=self.heading, **options)
        self.names[self.heading].append(name)

    def enum(self, name, default, choices, text):
        self._define(flags.DEFINE_enum, name, default, list(choices), text)

    def integer(self, name, default, text, **bounds):
        self._define(flags.DEFINE_integer, name, default, text, **bounds)

    def float(self, name, default, text, positive=True):
        """A finite number, above 0 or, unless positive, 0 too."""
        def check(value):
            if value is None or (math.isfinite(value) and (value > 0 or (value == 0 and not positive))):
                return True
            raise flags.ValidationError(f"expected a finite number {'above' if positive else 'not below'} 0")

        self._define(flags.DEFINE_float, name, default, text)
        flags.register_validator(name, check, flag_values=self.values)

    def path(self, name, default, text):
        """Text that is not empty: an empty path is an unset variable of a shell, and would mean the root."""
        self._define(flags.DEFINE_string, name, default, text)
        self._refuse_empty(name)

    def paths(self, name, default, text):
        """Comma-separated texts of which none is empty."""
        self._define(flags.DEFINE_list, name, default, text)
        self._refuse_empty(name)

    def _refuse_empty(self, name):
        def check(value):
            given = value if isinstance(value, list) else [value]
            if value is None or (given and all(part and part.strip() for part in given)):
                return True
            raise flags.ValidationError("expected a name or path; got an empty one")

        flags.register_validator(name, check, flag_values=self.values)

    def boolean(self, name, default, text):
        self._define(flags.DEFINE_boolean, name, default, text)

    def list(self, name, default, text):
        self._define(flags.DEFINE_list, name, default, text)

    def option(self, option):
        """A model's own option, see models.Option."""
        def check(value):
            try:
                option.check(value)
            except InputError as error:
                raise flags.ValidationError(str(error).partition(": ")[2]) from None
            return True

        if option.choices:
            self.enum(option.name, option.default, option.choices, option.help)
            return
        define = {int: flags.DEFINE_integer, float: flags.DEFINE_float, bool: flags.DEFINE_boolean,
                  str: flags.DEFINE_string}[option.kind]
        self._define(define, option.name, option.default, option.help)
        flags.register_validator(option.name, check, flag_values=self.values)
