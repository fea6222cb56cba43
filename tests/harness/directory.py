"""An LDAP directory: OpenLDAP's `slapd` on free ports of this machine, with users and groups of its own."""

import os
import pathlib
import shutil
import socket
import subprocess

from .process import ROOT, eventually

UNPACKED = ROOT / ".cache" / "slapd"
SERVICE = "cn=elastick,ou=services,dc=example,dc=com"
SERVICE_PASSWORD = "service-password-4711"
PASSWORD = "pa:ss {user}*)(uid=*"

CONFIG = """\
include {etc}/schema/core.schema
include {etc}/schema/cosine.schema
include {etc}/schema/inetorgperson.schema
modulepath {modules}
moduleload back_mdb
pidfile {directory}/pid
TLSCertificateFile {certificate}.pem
TLSCertificateKeyFile {certificate}.key
TLSCACertificateFile {authority}
allow bind_anon_cred bind_anon_dn
database mdb
maxsize 16777216
suffix "dc=example,dc=com"
rootdn "cn=root,dc=example,dc=com"
rootpw root
directory {directory}/data
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=groups,dc=example,dc=com" by dn.exact="{service}" read by dn.exact="uid=own,ou=people,dc=example,dc=com" read by * none
access to * by dn.exact="{service}" read by self read by * none
"""

ENTRIES = """\
dn: dc=example,dc=com
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: ou=groups,dc=example,dc=com
objectClass: organizationalUnit
ou: groups

dn: ou=services,dc=example,dc=com
objectClass: organizationalUnit
ou: services

dn: {service}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: elastick
userPassword: {service_password}

"""

PERSON = """\
dn: uid={dn},ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: {uid}
cn: {cn}
sn: x
userPassword: {password}

"""

GROUP = """\
dn: cn={cn},ou=groups,dc=example,dc=com
objectClass: groupOfNames
cn: {cn}
{members}

"""


def why_not():
    """Why there can be no directory; `None` if there can be one."""
    return None if program() else "slapd is neither installed nor unpacked: tests/install-slapd could not download it"


def program():
    for path in (UNPACKED / "usr/sbin/slapd", pathlib.Path("/usr/sbin/slapd")):
        if path.exists():
            return path
    return shutil.which("slapd")


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Directory:
    """A running directory. `people` are user names; `groups` maps a group to its members."""

    def __init__(self, directory, authority, people, groups):
        self.directory = pathlib.Path(directory)
        (self.directory / "data").mkdir(parents=True)
        slapd = pathlib.Path(program())
        root = UNPACKED if UNPACKED in slapd.parents else pathlib.Path("/")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")}
        config = self.directory / "slapd.conf"
        config.write_text(
            CONFIG.format(
                etc=root / "etc/ldap",
                modules=root / "usr/lib/ldap",
                directory=self.directory,
                certificate=authority.issue("directory"),
                authority=authority.path,
                service=SERVICE,
            )
        )
        entries = self.directory / "entries.ldif"
        entries.write_text(
            ENTRIES.format(service=SERVICE, service_password=SERVICE_PASSWORD)
            + "".join(PERSON.format(dn=name, uid=name, cn=name, password=PASSWORD) for name in people)
            + "".join(
                GROUP.format(cn=name, members="\n".join(f"member: uid={member},ou=people,dc=example,dc=com" for member in members))
                for name, members in groups.items()
            )
        )
        done = subprocess.run([slapd, "-T", "add", "-f", config, "-l", entries], env=self.environment, capture_output=True, text=True, timeout=60)
        if done.returncode:
            raise AssertionError(f"slapd -T add: {done.stderr}")
        self.port, self.tls_port = free_port(), free_port()
        urls = f"ldap://127.0.0.1:{self.port}/ ldaps://127.0.0.1:{self.tls_port}/"
        self.output = (self.directory / "slapd.out").open("wb")
        # In the foreground, each operation a line of its log.
        command = [slapd, "-d", "256", "-f", config, "-h", urls]
        self.popen = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)
        eventually(self._listens, "slapd listens", on_failure=self.printed)

    def _listens(self):
        if self.popen.poll() is not None:
            raise AssertionError(f"slapd ended: {self.printed()}")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def printed(self):
        return (self.directory / "slapd.out").read_text(errors="replace")

    def stop(self):
        self.popen.kill()
        self.popen.wait()
        self.output.close()
