"""The cluster's certificate authority and what it signs, by openssl."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.processes import run

_DAYS = "365"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pki:
    """One folder of keys and certificates."""

    folder: Path

    @property
    def authority(self) -> str:
        """The certificate that all others are checked against."""
        return str(self.folder / "ca.crt")

    def certificate(self, name: str) -> str:
        """Path of one certificate."""
        return str(self.folder / f"{name}.crt")

    def key(self, name: str) -> str:
        """Path of one key."""
        return str(self.folder / f"{name}.key")

    def create(self) -> None:
        """Make the authority, and the key that signs service accounts' tokens."""
        new = ("openssl", "req", "-x509", "-nodes", *_KEY, "-days", _DAYS)
        run(*new, "-subj", "/CN=neuronfleet", "-keyout", self.key("ca"), "-out", self.authority)
        run("openssl", "genrsa", "-out", self.key("accounts"), "2048")

    def issue(self, name: str, subject: str, addresses: tuple[str, ...] = ()) -> None:
        """A key and a certificate for `subject`, such as /O=system:nodes/CN=system:node:a."""
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        lines = ["extendedKeyUsage=clientAuth,serverAuth"]
        if addresses:
            kinds = (("IP:" if one[0].isdigit() else "DNS:") + one for one in addresses)
            lines.append("subjectAltName=" + ",".join(kinds))
        extensions.write_text("\n".join(lines) + "\n")
        new = ("openssl", "req", "-new", "-nodes", *_KEY, "-keyout", self.key(name))
        run(*new, "-subj", subject, "-out", str(request))
        sign = ("openssl", "x509", "-req", "-CAcreateserial", "-days", _DAYS, "-in", str(request))
        ca = ("-CA", self.authority, "-CAkey", self.key("ca"))
        run(*sign, *ca, "-extfile", str(extensions), "-out", self.certificate(name))
        request.unlink()
        extensions.unlink()

    def kubeconfig(self, name: str, server: str, path: Path) -> None:
        """A kubeconfig with all it needs inside, of the holder of one certificate."""
        cluster = {"server": server, "certificate-authority-data": _encoded(self.authority)}
        user = {
            "client-certificate-data": _encoded(self.certificate(name)),
            "client-key-data": _encoded(self.key(name)),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "neuronfleet",
            "clusters": [{"name": "neuronfleet", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [
                {"name": "neuronfleet", "context": {"cluster": "neuronfleet", "user": name}}
            ],
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(document, indent=1))


_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def _encoded(path: str) -> str:
    return base64.b64encode(Path(path).read_bytes()).decode()
