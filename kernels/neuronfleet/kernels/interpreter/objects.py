"""The base of every class that a kernel may make."""

import inspect
from typing import Any


class NKIObject:
    """Base class for a kernel's own classes.

    A field without a default is None until set, and a class without `__init__` takes its fields
    by position or name, as the language's front end has it, `@dataclass` or not.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fields = inspect.get_annotations(cls)
        for name in fields:
            if name not in cls.__dict__:
                setattr(cls, name, None)
        if "__init__" not in cls.__dict__ and fields:
            cls.__init__ = _initialiser(tuple(fields))  # type: ignore[method-assign]


def _initialiser(names: tuple[str, ...]) -> Any:
    def __init__(self: Any, *values: Any, **named: Any) -> None:
        for name in names:
            setattr(self, name, getattr(type(self), name, None))
        for name, value in (*zip(names, values, strict=False), *named.items()):
            setattr(self, name, value)
        after = getattr(self, "__post_init__", None)
        if after:
            after()

    return __init__
