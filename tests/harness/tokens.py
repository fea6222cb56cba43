"""An OpenID Connect issuer: keys and tokens made with the command `openssl`, and an HTTP or HTTPS server of its public keys."""

import base64
import contextlib
import http.server
import json
import pathlib
import ssl
import subprocess
import threading
import time

from .certificates import openssl

ISSUER = "https://sso.example.com/realms/firm"

# Algorithm: options of `genpkey`, digest, size of a number of the signature (0: as openssl writes it), more options of the signature.
KINDS = {
    "RS256": (("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"), "-sha256", 0, ()),
    "RS512": (("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"), "-sha512", 0, ()),
    "PS256": (("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"), "-sha256", 0, ("-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32")),
    "ES256": (("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"), "-sha256", 32, ()),
    "ES384": (("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"), "-sha384", 48, ()),
    "EdDSA": (("-algorithm", "ED25519"), None, 0, ()),
}


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def raw(der, size):
    """The two numbers of an ECDSA signature, without DER."""
    assert der[0] == 0x30
    at, numbers = 2, []
    for _ in range(2):
        length = der[at + 1]
        numbers.append(int.from_bytes(der[at + 2 : at + 2 + length], "big").to_bytes(size, "big"))
        at += 2 + length
    return b"".join(numbers)


class Key:
    """A key of an issuer."""

    def __init__(self, directory, name, algorithm):
        self.name, self.algorithm = name, algorithm
        self.path = pathlib.Path(directory) / f"{name}.key"
        openssl("genpkey", *KINDS[algorithm][0], "-out", self.path)
        self.public = self._public()

    def _public(self):
        """The key in its JWKS."""
        der = subprocess.run(["openssl", "pkey", "-in", self.path, "-pubout", "-outform", "DER"], capture_output=True, check=True, timeout=60).stdout
        jwk = {"kid": self.name, "use": "sig", "alg": self.algorithm}
        if self.algorithm.startswith(("RS", "PS")):
            text = openssl("rsa", "-in", self.path, "-noout", "-modulus")
            modulus = bytes.fromhex(text.strip().removeprefix("Modulus="))
            return {**jwk, "kty": "RSA", "n": base64url(modulus), "e": "AQAB"}
        size = KINDS[self.algorithm][2]
        if size:
            point = der[-2 * size :]
            return {**jwk, "kty": "EC", "crv": f"P-{size * 8}", "x": base64url(point[:size]), "y": base64url(point[size:])}
        return {**jwk, "kty": "OKP", "crv": "Ed25519", "x": base64url(der[-32:])}

    def sign(self, text):
        _, digest, size, options = KINDS[self.algorithm]
        path = self.path.with_suffix(".signed")
        path.write_bytes(text)
        if digest:
            command = ["openssl", "dgst", digest, *options, "-sign", self.path, "-binary", path]
        else:
            command = ["openssl", "pkeyutl", "-sign", "-inkey", self.path, "-rawin", "-in", path]
        signature = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
        return raw(signature, size) if size else signature


class Issuer:
    """Keys, and tokens signed with them."""

    def __init__(self, directory, *keys):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        self.keys = {}
        for name, algorithm in keys:
            self.add(name, algorithm)

    def add(self, name, algorithm="ES256"):
        self.keys[name] = Key(self.directory, name, algorithm)

    def jwks(self):
        return json.dumps({"keys": [key.public for key in self.keys.values()]})

    def token(self, key=None, header=None, **changes):
        """A token that is good for a minute; `changes` are its claims, `None` removes one."""
        key = self.keys[key or next(iter(self.keys))]
        claims = {
            "iss": ISSUER,
            "aud": "elastick",
            "sub": "0815",
            "exp": int(time.time()) + 60,
            "preferred_username": "tia",
            "realm_access": {"roles": ["traders"]},
        }
        claims = {name: value for name, value in {**claims, **changes}.items() if value is not None}
        head = {"alg": key.algorithm, "kid": key.name, "typ": "JWT", **(header or {})}
        text = ".".join(base64url(json.dumps(part).encode()) for part in (head, claims))
        return f"{text}.{base64url(key.sign(text.encode()))}"


class KeyServer:
    """Serves a JWKS on a free port of this machine; `answer(handler)` may do something else instead."""

    def __init__(self, issuer, certificate=None):
        self.issuer, self.asked, self.answer = issuer, 0, None
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                owner.asked += 1
                (owner.answer or owner.keys)(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{certificate}.pem", f"{certificate}.key")
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"{'https' if certificate else 'http'}://localhost:{self.server.server_port}/certs"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def keys(self, handler):
        # A client that has given up meanwhile is part of a test.
        with contextlib.suppress(OSError):
            self._send(handler)

    def _send(self, handler):
        body = self.issuer.jwks().encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
