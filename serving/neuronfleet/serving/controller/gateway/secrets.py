"""Keys and certificate from mounted Secrets: read again and again, used when they are good."""

import logging
import ssl
import tempfile
from pathlib import Path

from neuronfleet.serving.api.problems import SpecError
from neuronfleet.serving.controller.gateway.settings import AgentSettings
from neuronfleet.serving.gateway.keys import ClientKey
from neuronfleet.serving.gateway.process import read_keys

log = logging.getLogger(__name__)

LOOK_S = 2.0
"""Between two looks at the files; kubelet renews mounted Secrets about once a minute."""


class Secrets:
    """What the files said when they were last good."""

    def __init__(self, settings: AgentSettings) -> None:
        """Read for the first time.

        Raises:
            SpecError: a file will not do; nobody is let in by mistake.
        """
        self._settings = settings
        self._complaints: dict[str, str] = {}
        self.keys = self._read_keys()
        self.certificate = self._read_certificate()

    def look(self) -> bool:
        """Read again; whether both are good. One that is not stays as it was."""
        return all([self._look("keys"), self._look("certificate")])

    def _look(self, what: str) -> bool:
        try:
            if what == "keys":
                self.keys = self._read_keys()
            else:
                self.certificate = self._read_certificate()
        except SpecError as error:
            if self._complaints.get(what) != str(error):
                log.error("the %s stay as they were: %s", what, error)
            self._complaints[what] = str(error)
            return False
        self._complaints.pop(what, None)
        return True

    def _read_keys(self) -> tuple[ClientKey, ...]:
        path = self._settings.keys_file
        return () if path is None else read_keys(path)

    def _read_certificate(self) -> str | None:
        certificate, key = self._settings.tls_certificate, self._settings.tls_key
        if certificate is None or key is None:
            return None
        return read_certificate(certificate, key)


def read_certificate(certificate: Path, key: Path) -> str:
    """Certificate chain and key as one PEM text.

    Raises:
        SpecError: they cannot be read, or do not belong together.
    """
    try:
        text = f"{certificate.read_text().strip()}\n{key.read_text().strip()}\n"
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SpecError(f"{certificate}, {key}: {reason}, must be readable PEM files") from error
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
        both.write(text)
        both.flush()
        try:
            # Refuses a key of another certificate.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(both.name)
        except ssl.SSLError as error:
            raise SpecError(f"{certificate}, {key}: {error.reason}, must be a PEM pair") from error
    return text
