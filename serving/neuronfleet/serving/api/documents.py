"""YAML documents, with every key once."""

from typing import Any

import yaml

from neuronfleet.serving.api.problems import SpecError


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice, where the last would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """A mapping with every key once."""
        seen = set()
        for key_node, _ in node.value:
            if isinstance(key_node, yaml.ScalarNode):
                if key_node.value in seen:
                    text = f"field {key_node.value} is given twice"
                    raise yaml.MarkedYAMLError(problem=text, problem_mark=key_node.start_mark)
                seen.add(key_node.value)
        return super().construct_mapping(node, deep)


def read_documents(text: str, source: str) -> list[Any]:
    """The documents of a YAML text that hold anything.

    Raises:
        SpecError: it is not YAML, gives a key twice, or nests too deep.
    """
    try:
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except RecursionError as wrong:
        raise SpecError(f"{source}: nested too deep, must be a fleet file") from wrong
    except yaml.YAMLError as wrong:
        line = " ".join(str(wrong).split())
        raise SpecError(f"{source}: not YAML: {line}") from wrong
