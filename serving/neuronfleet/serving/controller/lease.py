"""Leader election over a Lease: the client's own, fenced, and released on the way out."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic

import aiohttp
from kubernetes.aio.client import ApiClient, V1Lease, V1ObjectMeta
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.leaderelection.electionconfig import Config
from kubernetes.aio.leaderelection.leaderelection import LeaderElection
from kubernetes.aio.leaderelection.leaderelectionrecord import LeaderElectionRecord
from kubernetes.aio.leaderelection.resourcelock.leaselock import LeaseLock

log = logging.getLogger(__name__)

_MARGIN_S = 0.2
"""Between letting go and the earliest moment at which another may take the Lease."""
_RELEASE_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """How long a Lease lasts; the client wants 1 s or more of each, and whole seconds of it."""

    lease_s: int = 5
    """Unrenewed for so long, it may be taken: a crashed holder's work stands still so long."""
    renew_s: float = 3.5
    """The client gives up renewing after this; we let go by the fence, which is earlier."""
    retry_s: float = 1.0
    """Between two tries, and between two looks of those who wait."""


class Lease:
    """One Lease and this process's part in it."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
    ) -> None:
        self._times = times or LeaseTimes()
        self._lock = _Lock(client, namespace, name, identity, self._times.retry_s)
        self._who = f"{namespace}/{name} as {identity}"
        self.transitions = 0
        """How often this process began or ceased to hold it."""

    @property
    def held(self) -> bool:
        """Whether this process holds it, and nobody else can yet."""
        renewed = self._lock.renewed_at
        return renewed is not None and monotonic() < renewed + self._times.lease_s - _MARGIN_S

    @property
    def reachable(self) -> bool:
        """Whether the last call to the API server was answered."""
        return self._lock.reachable

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever the Lease is held, and cancel it when it is lost.

        Returns when `lead` does, raises what it raises, and otherwise goes on until cancelled;
        `release` comes after that.
        """
        election = asyncio.create_task(self._elect())
        try:
            while True:
                while not self.held:
                    await self._next_call(election, timeout=None)
                if await self._hold(lead, election):
                    return
        finally:
            await _end(election)

    async def release(self) -> None:
        """Let the next one take it at once; for when `run` has ended."""
        try:
            async with asyncio.timeout(_RELEASE_S):
                await self._lock.release()
        except (ApiException, aiohttp.ClientError, OSError) as error:
            log.warning("the Lease %s was not released: %r", self._who, error)

    async def _elect(self) -> None:
        async def nothing() -> None:
            return

        while True:
            config = Config(
                self._lock,
                self._times.lease_s,
                self._times.renew_s,
                self._times.retry_s,
                onstarted_leading=nothing,
                onstopped_leading=nothing,
            )
            await LeaderElection(config).run()

    async def _hold(
        self, lead: Callable[[], Awaitable[None]], election: "asyncio.Task[None]"
    ) -> bool:
        """Lead for as long as the Lease is held; whether `lead` ended by itself."""
        self.transitions += 1
        log.info("holds the Lease %s", self._who)
        work = asyncio.ensure_future(lead())
        try:
            while self.held and not work.done():
                renewed = self._lock.renewed_at or 0.0
                fence = renewed + self._times.lease_s - _MARGIN_S - monotonic()
                await self._next_call(election, work, timeout=max(0.0, fence))
            if work.done():
                work.result()
                return True
            log.warning("lost the Lease %s", self._who)
            self.transitions += 1
            return False
        finally:
            await _end(work)

    async def _next_call(self, *tasks: "asyncio.Future[None]", timeout: float | None) -> None:
        """Wait for the election's next call, for one of `tasks` to end, or for `timeout`."""
        call = asyncio.create_task(self._lock.next_call())
        try:
            await asyncio.wait({call, *tasks}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            call.cancel()
        if tasks[0].done():
            tasks[0].result()


class _Lock(LeaseLock):
    """The client's lock, whose calls end in time and never end the election by an exception."""

    def __init__(
        self, client: ApiClient, namespace: str, name: str, identity: str, call_s: float
    ) -> None:
        super().__init__(name, namespace, identity, client)
        self._call_s = call_s
        self._called = asyncio.Event()
        self.renewed_at: float | None = None
        """Monotonic seconds at which the call that last renewed it began; None: not ours."""
        self.reachable = False

    async def next_call(self) -> None:
        """Return once another call has ended."""
        await self._called.wait()

    async def get(
        self, name: str, namespace: str
    ) -> tuple[bool, LeaderElectionRecord] | tuple[bool, Exception] | tuple[bool, None]:
        """The record of who holds it."""
        try:
            async with asyncio.timeout(self._call_s):
                found, record = await super().get(name, namespace)
        except (aiohttp.ClientError, OSError) as error:
            found, record = False, ApiException(status=0, reason=repr(error))
        holder = getattr(record, "holder_identity", None)
        if found and holder != self.identity:
            self.renewed_at = None
        self._ended(answered=found or getattr(record, "status", 0) == 404)
        return found, record  # type: ignore[return-value] # the pairs' halves were taken apart

    async def create(
        self, name: str, namespace: str, election_record: LeaderElectionRecord
    ) -> bool:
        """Create it as ours."""
        body = V1Lease(metadata=V1ObjectMeta(name=name), spec=self.update_lease(election_record))
        return await self._write(self.api_instance.create_namespaced_lease(namespace, body))

    async def update(self, name: str, namespace: str, updated_record: LeaderElectionRecord) -> bool:
        """Take or renew it."""
        lease = self.lease_reference
        if lease is None:
            return False
        lease.spec = self.update_lease(updated_record, lease.spec)
        return await self._write(
            self.api_instance.replace_namespaced_lease(name=name, namespace=namespace, body=lease)
        )

    async def release(self) -> None:
        """Empty its holder, where that is us."""
        lease = await self.api_instance.read_namespaced_lease(self.name, self.namespace)
        if lease.spec is None or lease.spec.holder_identity != self.identity:
            return
        lease.spec.holder_identity = None
        await self.api_instance.replace_namespaced_lease(
            name=self.name, namespace=self.namespace, body=lease
        )
        self.renewed_at = None

    async def _write(self, call: Awaitable[object]) -> bool:
        began = monotonic()
        try:
            async with asyncio.timeout(self._call_s):
                await call
        except ApiException as error:
            if error.status != 409:  # the other was quicker
                log.warning("the Lease was not written: %s %s", error.status, error.reason)
            self._ended(answered=True)
            return False
        except (aiohttp.ClientError, OSError) as error:
            log.warning("the Lease was not written: %r", error)
            self._ended(answered=False)
            return False
        self.renewed_at = began
        self._ended(answered=True)
        return True

    def _ended(self, *, answered: bool) -> None:
        self.reachable = answered
        self._called.set()
        self._called.clear()


async def _end(task: "asyncio.Future[None]") -> None:
    """Cancel a task and wait for its end; what it raised was told already."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()
