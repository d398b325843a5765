"""Read the typed fields of a JSON body, leniently as pydantic does, and collect what is wrong."""

from collections.abc import Mapping

from neuronfleet.serving.emulator.errors import Flaw

_TRUE = {"true", "1", "yes", "on", "t", "y"}
_FALSE = {"false", "0", "no", "off", "f", "n"}


class Fields:
    """One body; a field that is absent or null is None."""

    def __init__(self, body: Mapping[str, object], loc: str = "body") -> None:
        self._body = body
        self._loc = loc
        self.flaws: list[Flaw] = []

    def raw(self, name: str) -> object:
        """The value as it came."""
        return self._body.get(name)

    def flaw(self, name: str, kind: str, message: str) -> None:
        """Note that a field is wrong."""
        at = Flaw(kind=kind, loc=f"{self._loc}.{name}", message=message, value=self.raw(name))
        self.flaws.append(at)

    def integer(self, name: str) -> int | None:
        """A whole number; "2" and 2.0 are taken as one."""
        value = self.raw(name)
        if value is None or isinstance(value, int):
            return value if value is None else int(value)
        if isinstance(value, float):
            if value.is_integer():
                return int(value)
            self.flaw(
                name,
                "int_from_float",
                "Input should be a valid integer, got a number with a fractional part",
            )
        elif isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                self.flaw(
                    name,
                    "int_parsing",
                    "Input should be a valid integer, unable to parse string as an integer",
                )
        else:
            self.flaw(name, "int_type", "Input should be a valid integer")
        return None

    def number(self, name: str) -> float | None:
        """A number; "0.5" is taken as one."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError:
                self.flaw(
                    name,
                    "float_parsing",
                    "Input should be a valid number, unable to parse string as a number",
                )
        else:
            self.flaw(name, "float_type", "Input should be a valid number")
        return None

    def boolean(self, name: str) -> bool:
        """A truth value, False where absent; "true" and 1 are taken as one."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        text = str(value).lower()
        if text not in _TRUE | _FALSE:
            self.flaw(
                name,
                "bool_parsing",
                "Input should be a valid boolean, unable to interpret input",
            )
        return text in _TRUE

    def string(self, name: str) -> str | None:
        """A text."""
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        self.flaw(name, "string_type", "Input should be a valid string")
        return None

    def strings(self, name: str, most: int) -> tuple[str, ...]:
        """A text or a list of at most `most`; none where absent."""
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.flaw(name, "string_type", "Input should be a valid string")
            self.flaw(name, "list_type", "Input should be a valid list")
            return ()
        if len(value) > most:
            self.flaw(name, "string_type", "Input should be a valid string")
            message = f"List should have at most {most} items after validation, not {len(value)}"
            self.flaw(name, "too_long", message)
        return tuple(value)

    def nested(self, name: str) -> "Fields":
        """The fields of an object, none where absent."""
        value = self.raw(name)
        if value is None:
            return Fields({}, f"{self._loc}.{name}")
        if not isinstance(value, Mapping):
            self.flaw(
                name,
                "model_attributes_type",
                "Input should be a valid dictionary or object to extract fields from",
            )
            return Fields({}, f"{self._loc}.{name}")
        return Fields(value, f"{self._loc}.{name}")
