"""A certificate authority of its own, made with the command `openssl`."""

import os
import pathlib
import ssl
import subprocess

CONFIG = """\
[ca]
default_ca = own
[own]
database = {0}/index.txt
new_certs_dir = {0}
certificate = {0}/ca.pem
private_key = {0}/ca.key
rand_serial = yes
unique_subject = no
default_md = sha256
policy = any
copy_extensions = copy
[any]
commonName = supplied
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE
"""


def openssl(*arguments, **options):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=60, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Authority:
    """Issues certificates into a directory."""

    def __init__(self, directory, name="Test authority"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        (self.directory / "index.txt").touch()
        self.config = self.directory / "openssl.cnf"
        self.config.write_text(CONFIG.format(self.directory))
        self.path = self.directory / "ca.pem"
        key = self._key(self.directory / "ca.key")
        openssl("req", "-x509", "-config", self.config, "-extensions", "authority", "-key", key, "-days", 3650, "-subj", f"/CN={name}", "-out", self.path)

    def _key(self, path):
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        return path

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", start="20200101000000Z", end="20991231000000Z"):
        """A certificate and its key; returns the base path: `.pem` and `.key` are the files. Issuing a name again replaces both."""
        base = self.directory / name
        key = self._key(base.with_suffix(".new-key"))
        request = base.with_suffix(".csr")
        openssl("req", "-new", "-config", self.config, "-key", key, "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}", "-out", request)
        issued = base.with_suffix(".new-pem")
        openssl("ca", "-batch", "-notext", "-config", self.config, "-in", request, "-out", issued, "-startdate", start, "-enddate", end)
        os.replace(issued, base.with_suffix(".pem"))
        os.replace(key, base.with_suffix(".key"))
        return base

    def variables(self, base=None, **others):
        """The environment of a process with this certificate."""
        own = {"SSL_CERT_FILE": f"{base}.pem", "SSL_KEY_FILE": f"{base}.key"} if base else {}
        return {**own, "SSL_CA_CERT_FILE": str(self.path), **others}

    def client(self, base=None, version=None):
        """Python's TLS for a client that trusts this authority, with a certificate or without."""
        context = ssl.create_default_context(cafile=self.path)
        if base:
            context.load_cert_chain(f"{base}.pem", f"{base}.key")
        if version:
            context.minimum_version = context.maximum_version = version
        return context
