use super::*;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

/// An answer to Get as KMIP 1.2 has it, with the key of these bytes.
fn answer(status: u32, key: &[u8]) -> Vec<u8> {
    structure(RESPONSE_MESSAGE, |message| {
        message.extend(structure(BATCH_ITEM, |item| {
            put(item, RESULT_STATUS, 5, &status.to_be_bytes());
            put(item, RESULT_MESSAGE, 7, b"no such key");
            item.extend(structure(RESPONSE_PAYLOAD, |payload| {
                put(payload, UNIQUE_IDENTIFIER, 7, b"1");
                payload.extend(structure(SYMMETRIC_KEY, |object| {
                    object.extend(structure(KEY_BLOCK, |block| {
                        put(block, KEY_FORMAT_TYPE, 5, &RAW.to_be_bytes());
                        block.extend(structure(KEY_VALUE, |value| put(value, KEY_MATERIAL, 8, key)));
                    }));
                }));
            }));
        }));
    })
}

#[test]
fn a_request_is_what_the_standard_draws() {
    let bytes = request("49a1ca88");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = concat!(
        "4200780100000070",
        "4200770100000038",
        "4200690100000020",
        "42006a02000000040000000100000000",
        "42006b02000000040000000200000000",
        "42000d02000000040000000100000000",
        "42000f0100000028",
        "42005c05000000040000000a00000000",
        "4200790100000010",
        "42009407000000083439613163613838",
    );
    assert_eq!(hex, expected);
}

#[test]
fn the_key_is_found_in_an_answer_and_a_refusal_says_why() {
    assert_eq!(key_of(&answer(SUCCESS, &[7; 32])).unwrap(), [7; 32]);
    assert!(key_of(&answer(1, &[7; 32])).unwrap_err().to_string().contains("no such key"));
}

#[test]
fn no_answer_makes_it_panic() {
    let whole = answer(SUCCESS, &[7; 32]);
    for at in 0..whole.len() {
        let _ = key_of(&whole[..at]);
        for change in [0x00, 0x01, 0x7f, 0xff] {
            let mut other = whole.clone();
            other[at] = change;
            let _ = key_of(&other);
        }
    }
}

/// PyKMIP, which prints the identifier of a new key when it serves.
const SERVER: &str = r#"
import sys, threading, time
folder, port = sys.argv[1], int(sys.argv[2])
from kmip.services.server import KmipServer
from kmip.pie.client import ProxyKmipClient
from kmip.core import enums
ca, cert, key = (folder + name for name in ("/ca.pem", "/cert.pem", "/key.pem"))
def ask():
    for _ in range(100):
        try:
            with ProxyKmipClient("127.0.0.1", port, cert, key, ca, ssl_version="PROTOCOL_TLSv1_2") as client:
                long = client.create(enums.CryptographicAlgorithm.AES, 256)
                print(long, client.get(long).value.hex(), client.create(enums.CryptographicAlgorithm.AES, 128), flush=True)
            return
        except Exception as error:
            last = error
            time.sleep(0.1)
    print("failed:", last, flush=True)
server = KmipServer(hostname="127.0.0.1", port=port, certificate_path=cert, key_path=key, ca_path=ca,
    auth_suite="TLS1.2", config_path=None, log_path=folder + "/server.log", policy_path=folder,
    enable_tls_client_auth=True, database_path=folder + "/pykmip.db")
server.start()
threading.Thread(target=ask, daemon=True).start()
server.serve()
"#;

/// Ends the server with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Python with PyKMIP, in a folder that later runs find again.
fn python() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.join("pykmip");
    let python = folder.join("bin/python");
    let run = |program: &Path, args: &[&str]| {
        let done = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    let there = |python: &Path| run(python, &["-c", "import kmip.services.server"]);
    if !there(&python) {
        let made = run(Path::new("python3"), &["-m", "venv", folder.to_str()?])
            && run(&python, &["-m", "pip", "install", "--quiet", "pykmip==0.11.0"]);
        return (made && there(&python)).then_some(python);
    }
    Some(python)
}

fn write_certificates(folder: &Path) {
    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("ca.pem"), authority.self_signed(&authority_key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let mut both = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    both.distinguished_name.push(rcgen::DnType::CommonName, "array");
    both.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    std::fs::write(folder.join("cert.pem"), both.signed_by(&key, &issuer).unwrap().pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
}

#[test]
fn a_key_comes_from_a_real_server() {
    let Some(python) = python() else {
        eprintln!("skipped: PyKMIP can't be had (python3 -m venv, pip install pykmip)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    write_certificates(folder.path());
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(python);
    command.arg("-c").arg(SERVER).arg(folder.path()).arg(port.to_string());
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    let out = running.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let [long, expected, short] = words[..] else { panic!("PyKMIP says: {line:?}") };

    let path = |name: &str| folder.path().join(name);
    let address = format!("127.0.0.1:{port}");
    let server = |authority| Server {
        address: address.clone(),
        certificate: path("cert.pem"),
        key: path("key.pem"),
        authority: path(authority),
    };
    let key: String = server("ca.pem").get(long).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(key, expected);
    assert_eq!(server("ca.pem").get(short).unwrap().len(), 16);
    let unknown = format!("{:#}", server("ca.pem").get("nobody").unwrap_err());
    assert!(unknown.contains("it says"), "{unknown}");
    // A server that nobody vouches for gets no question.
    let strange = format!("{:#}", server("cert.pem").get(long).unwrap_err());
    assert!(strange.contains("certificate"), "{strange}");
}
