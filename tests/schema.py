"""Hold a JSON document against its committed schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).parents[1] / "docs/schemas"


def check(document: Any, name: str) -> None:
    """Raise where `document` is not what docs/schemas/<name>.json describes."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
