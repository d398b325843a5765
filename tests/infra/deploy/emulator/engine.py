"""CloudFormation on moto's, made strict: what cannot be created fails its stack.

Stock moto skips types that it does not know and then reports CREATE_COMPLETE; it loses outputs
and exports of change sets, ignores DependsOn on that path, and knows no Fn::GetStackOutput.
"""

import threading
import traceback
from typing import Any

import moto.cloudformation.models as stacks  # before parsing: it imports parsing midway
import moto.cloudformation.parsing as parsing
from moto.cloudformation.exceptions import UnformattedGetAttTemplateException, ValidationError
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult

from tests.infra.deploy.emulator import dynamic, schema, stock
from tests.infra.deploy.emulator.registry import PROVIDERS, Ledger, Made, Refused, Request

METADATA = "AWS::CDK::Metadata"
"""Creates nothing on AWS either."""


class Resource:
    """A created resource, with what moto asks of one."""

    def __init__(self, request: Request, made: Made) -> None:
        self.cf_resource_type = request.type
        self.logical_resource_id = request.logical_id
        self.physical_resource_id = made.ref
        self._region = request.region
        self.attributes = made.attributes

    def get_cfn_attribute(self, name: str) -> str:
        """What Fn::GetAtt gives; an attribute that the type does not have is refused."""
        if name not in self.attributes:
            known = ", ".join(sorted(self.attributes)) or "none"
            raise Refused(
                f"{self.cf_resource_type} {self.logical_resource_id} has no attribute {name}"
                f" (it has: {known})"
            )
        return self.attributes[name]

    def is_created(self) -> bool:
        """Creation is synchronous here."""
        return True

    @classmethod
    def has_cfn_attr(cls, _: str) -> bool:
        """Attributes are checked when they are read, where the type is known."""
        return True


class Engine:
    """Creates stacks in moto's backends through providers and records them."""

    def __init__(self, endpoint: str, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._lock = threading.RLock()
        self._thread: int | None = None
        """Of the change set that is executed now."""
        self._path: list[tuple[str, str]] = []
        self._execute = stacks.CloudFormationBackend.execute_change_set
        self._clean = parsing.clean_json

    def install(self) -> None:
        """Put the strict parts in the place of moto's."""
        engine = self

        def execute(backend: Any, change_set_name: str, stack_name: str | None = None) -> None:
            engine.execute(backend, change_set_name, stack_name)

        for owner, name, strict in (
            (parsing, "clean_json", self.clean),
            (parsing, "parse_and_create_resource", self.create),
            (parsing, "resource_class_from_type", lambda _: Resource),
            (stacks.CloudFormationBackend, "execute_change_set", execute),
            (CloudFormationResponse, "update_termination_protection", _protect),
        ):
            setattr(owner, name, strict)

    def clean(self, value: Any, resources: Any) -> Any:
        """Resolve intrinsics; one that resolves to nothing is an error, not an absent property."""
        if isinstance(value, dict) and len(value) == 1:
            [(function, argument)] = value.items()
            if function == "Fn::GetStackOutput":
                return _stack_output(self.clean(argument, resources), resources)
            if function == "Fn::GetAtt":
                return self._attribute(argument, resources)
        resolved = self._clean(value, resources)
        return dynamic.resolved(resolved) if isinstance(resolved, str) else resolved

    def _attribute(self, argument: Any, resources: Any) -> Any:
        logical_id, name = argument if isinstance(argument, list) else argument.split(".", 1)
        resource = resources[logical_id]
        if isinstance(resource, Resource) and name in resource.attributes:
            return resource.attributes[name]
        if (name,) == schema.identifier(resources._region_name, resource.cf_resource_type):
            return resource.physical_resource_id
        try:
            found = resource.get_cfn_attribute(name)
        except (AttributeError, NotImplementedError, UnformattedGetAttTemplateException) as error:
            raise Refused(f"{logical_id}: moto has no attribute {name} of its type") from error
        if found is None:
            raise Refused(f"{logical_id}.{name} has no value")
        return found

    def create(
        self, logical_id: str, resource: Any, resources: Any, account_id: str, region_name: str
    ) -> Any:
        """Create one resource after those that it depends on.

        In moto's lazy map a mere listing of a stack's resources creates them; here only the
        execution of a change set does.
        """
        if threading.get_ident() != self._thread:
            return resources._parsed_resources.get(logical_id)
        condition = resource.get("Condition")
        if resource["Type"] == METADATA:
            return None
        if condition and not resources.lazy_condition_map[condition]:
            return None
        stack = str(resources["AWS::StackName"])
        if (stack, logical_id) in self._path:
            raise Refused(f"circular dependency: {' -> '.join(n for _, n in self._path)}")
        self._path.append((stack, logical_id))
        try:
            after = resource.get("DependsOn", [])
            for earlier in [after] if isinstance(after, str) else after:
                _ = resources[earlier]
            properties = self.clean(resource.get("Properties", {}), resources)
            request = Request(
                type=resource["Type"],
                logical_id=logical_id,
                stack=stack,
                properties=schema.coerced(region_name, resource["Type"], properties),
                account=account_id,
                region=region_name,
                endpoint=self._endpoint,
            )
            return self._made(request, resources)
        finally:
            self._path.pop()

    def _made(self, request: Request, resources: Any) -> Any:
        custom = request.type.startswith("Custom::")
        provider = PROVIDERS.get(request.type)
        if provider is None and request.type not in stock.TYPES:
            raise Refused(f"{request.logical_id}: there is no provider for {request.type}")
        lines = [] if custom else schema.problems(request.region, request.type, request.properties)
        if lines:
            raise Refused(f"{request.logical_id} ({request.type}): {'; '.join(lines)}")
        try:
            if provider is None:
                created, made = stock.create(request, resources)
            else:
                made = provider(request)
                created = Resource(request, made)
        except Exception as error:
            name = type(error).__name__
            raise Refused(f"{request.logical_id} ({request.type}): {name}: {error}") from error
        self._ledger.add(request, made)
        return created

    def execute(self, backend: Any, name: str, stack_name: str | None) -> None:
        """Execute a change set; any failure leaves the stack in ROLLBACK_COMPLETE.

        Raising would not do: the CDK CLI retries a 500, and the retry of a half built stack
        finds nothing left to add and calls it complete.
        """
        with self._lock:
            change_set = backend.describe_change_set(name)
            stack = backend.stacks[change_set.stack_id]
            self._thread = threading.get_ident()
            try:
                if change_set.change_set_type != "CREATE":
                    raise Refused("the emulator creates stacks and updates none")
                stack.resource_map.cross_stack_resources = backend.exports
                self._execute(backend, name, stack_name)
                stack.output_map = parsing.OutputMap(
                    stack.resource_map, change_set.template_dict, stack.stack_id
                )
                _ = list(stack.output_map.values())  # resolved now, so that what fails is seen
                backend.exports.update({export.name: export for export in stack.exports})
            except Exception as error:
                traceback.print_exc()
                _fail(stack, error)
            finally:
                self._thread = None


def _fail(stack: Any, error: Exception) -> None:
    stack.output_map = parsing.OutputMap(stack.resource_map, {}, stack.stack_id)
    stack.status = "ROLLBACK_COMPLETE"
    stack.status_reason = str(error)
    stack._add_stack_event("ROLLBACK_COMPLETE", resource_status_reason=str(error))


def _stack_output(argument: Any, resources: Any) -> str:
    region = argument.get("Region", resources._region_name)
    backend = stacks.cloudformation_backends[resources._account_id][region]
    name, output = argument["StackName"], argument["OutputName"]
    found = [s for s in backend.stacks.values() if s.name == name]
    status = found[-1].status if found else "absent"
    if status != "CREATE_COMPLETE":
        raise Refused(f"Fn::GetStackOutput: there is no complete stack {name}: it is {status}")
    if output not in found[-1].output_map.outputs:
        raise Refused(f"Fn::GetStackOutput: stack {name} has no output {output}")
    return str(getattr(found[-1].output_map[output], "value", None))


def _protect(response: Any) -> ActionResult:
    """UpdateTerminationProtection, which moto lacks: the CDK CLI calls it after a deploy."""
    stack = response.cloudformation_backend.get_stack(response._get_param("StackName"))
    if stack.status == "ROLLBACK_COMPLETE":
        raise ValidationError(stack.name)
    stack.enable_termination_protection = response._get_bool_param("EnableTerminationProtection")
    return ActionResult({"StackId": stack.stack_id})
