"""What the replica's own server says: its load, and the answer to a question."""

import http.client
import json
import re
from dataclasses import dataclass

_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{.*\})?\s+(\S+)")
_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_TOKENS = "vllm:generation_tokens_total"
_LARGEST = 16 << 20
"""Bytes of an answer that are read; vLLM's metrics are about 100 kB."""


class Unreachable(Exception):
    """The server gave no answer that counts."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused
        """Nothing listens on its port: it has not started, or it has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One reading of /metrics, summed over engines; None where there is no sample."""

    running: float | None
    waiting: float | None
    tokens: float | None
    """Tokens generated since the server started."""

    @property
    def held(self) -> float | None:
        """Sequences in the server, running or waiting."""
        if self.running is None:
            return None
        return self.running + (self.waiting or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the server said to a question."""

    status: int
    text: str | None
    """None where the body held none."""
    tokens: int
    """Tokens that the answer says it took; 0 where it does not say."""


def look(port: int, timeout_s: float) -> Look:
    """Read the server's load.

    Raises:
        Unreachable: no answer in time, or not one of 200.
    """
    status, body = _request(port, "GET", "/metrics", None, timeout_s)
    if status != 200:
        raise Unreachable(f"/metrics answered {status}")
    return read_metrics(body.decode(errors="replace"))


def read_metrics(text: str) -> Look:
    """The load in a text of metrics."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample and sample[1] in (_RUNNING, _WAITING, _TOKENS):
            try:
                sums[sample[1]] = sums.get(sample[1], 0.0) + float(sample[2])
            except ValueError:
                continue
    return Look(running=sums.get(_RUNNING), waiting=sums.get(_WAITING), tokens=sums.get(_TOKENS))


def ask(port: int, model: str, prompt: str, max_tokens: int, timeout_s: float) -> Answer:
    """Ask for a completion, at temperature 0.

    Raises:
        Unreachable: no answer in time.
    """
    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0}
    status, raw = _request(port, "POST", "/v1/completions", json.dumps(body).encode(), timeout_s)
    try:
        document = json.loads(raw)
        text = document["choices"][0]["text"]
        tokens = (document.get("usage") or {}).get("completion_tokens", 0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return Answer(status=status, text=None, tokens=0)
    text = text if isinstance(text, str) else None
    return Answer(status=status, text=text, tokens=tokens if isinstance(tokens, int) else 0)


def _request(
    port: int, method: str, path: str, body: bytes | None, timeout_s: float
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=max(0.05, timeout_s))
    headers = {"Content-Type": "application/json"} if body is not None else {}
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read(_LARGEST)
    except ConnectionRefusedError as error:
        raise Unreachable(f"nothing listens on port {port}", refused=True) from error
    except TimeoutError as error:
        raise Unreachable(f"{path} gave no answer in {timeout_s:.1f} s") from error
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{path} broke off: {error or type(error).__name__}") from error
    finally:
        connection.close()
