//! OpenLDAP server on the loopback interface, with a few users and a group.

use crate::{Running, certificates, free_port};
use std::path::Path;
use std::process::{Command, Stdio};

const CONFIG: &str = "
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb.la
moduleload memberof.la
pidfile FOLDER/pid
TLSCertificateFile FOLDER/cert.pem
TLSCertificateKeyFile FOLDER/key.pem
TLSCACertificateFile FOLDER/ca.pem
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact=cn=array,dc=example,dc=com read by * none
database mdb
suffix dc=example,dc=com
rootdn cn=root,dc=example,dc=com
rootpw root-secret-1
directory FOLDER/data
overlay memberof
";

const CONTENT: &str = "dn: dc=example,dc=com
objectClass: domain
dc: example

dn: cn=array,dc=example,dc=com
objectClass: applicationProcess
objectClass: simpleSecurityObject
cn: array
userPassword: search-secret-1

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=ada,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: ada
cn: Ada
sn: Lovelace
userPassword: adas password

dn: uid=eve(*),ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: eve(*)
cn: Eve
sn: Other
userPassword: eves password

dn: ou=groups,dc=example,dc=com
objectClass: organizationalUnit
ou: groups

dn: cn=keepers,ou=groups,dc=example,dc=com
objectClass: groupOfNames
cn: keepers
member: uid=ada,ou=people,dc=example,dc=com
";

fn run(program: &str, words: &[&str], input: &str) -> bool {
    let mut child =
        match Command::new(program).args(words).stdin(Stdio::piped()).stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(_) => return false,
        };
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    child.wait().unwrap().success()
}

/// An OpenLDAP server with its plain and its TLS address; `None` if it is not installed.
///
/// # Panics
/// If it does not start.
pub fn start(folder: &Path) -> Option<(Running, String, String)> {
    const SLAPD: &str = "/usr/sbin/slapd";
    if !Path::new(SLAPD).exists() {
        eprintln!("skipped: slapd is not installed (apt-get install slapd)");
        return None;
    }
    certificates::write(folder, "array");
    std::fs::create_dir(folder.join("data")).unwrap();
    let config = folder.join("slapd.conf");
    let path = folder.to_str().unwrap();
    std::fs::write(&config, CONFIG.replace("FOLDER", path)).unwrap();
    let config = config.to_str().unwrap();
    assert!(run(SLAPD, &["-T", "add", "-f", config], CONTENT));
    let (plain, tls) =
        (format!("ldap://127.0.0.1:{}", free_port()), format!("ldaps://127.0.0.1:{}", free_port()));
    let mut server = Command::new(SLAPD);
    server.args(["-d", "0", "-f", config, "-h", &format!("{plain} {tls}")]);
    let mut running = Running::start(server.stdout(Stdio::null()).stderr(Stdio::null()));
    while std::net::TcpStream::connect(plain.trim_start_matches("ldap://")).is_err() {
        assert!(running.is_running(), "slapd ended: {config} may say why");
        std::thread::yield_now();
    }
    Some((running, plain, tls))
}
