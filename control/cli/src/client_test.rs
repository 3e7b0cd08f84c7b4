use super::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

#[test]
fn an_address_stands_for_the_default_url() {
    for (given, url) in [
        ("10.0.0.1", "https://10.0.0.1:8443"),
        ("10.0.0.1:9000", "https://10.0.0.1:9000"),
        ("array.example.com", "https://array.example.com:8443"),
        ("2001:db8::1", "https://[2001:db8::1]:8443"),
        ("[2001:db8::1]", "https://[2001:db8::1]:8443"),
        ("[2001:db8::1]:9000", "https://[2001:db8::1]:9000"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
    ] {
        assert_eq!(whole(given.into()), url);
    }
}

#[test]
fn a_token_goes_to_another_machine_encrypted_only() {
    for (url, clear) in [
        ("https://10.0.0.1:8080", false),
        ("HTTPS://array.example.com", false),
        ("http://127.0.0.1:8080", false),
        ("http://127.9.9.9", false),
        ("http://[::1]:8080", false),
        ("http://[::ffff:127.0.0.1]:8080", false),
        ("http://localhost:8080/", false),
        ("http://10.0.0.1:8080", true),
        ("HTTP://10.0.0.1:8080", true),
        ("http://array.example.com", true),
        ("http://localhost.example.com", true),
        ("http://127.0.0.1@example.com/", true),
        ("http://127.0.0.1.example.com", true),
        ("array.example.com:8080", true),
        ("http://[2001:db8::1]:8080", true),
        ("", true),
    ] {
        assert_eq!(goes_in_clear(url), clear, "{url}");
    }
    let refused = Client::new("http://10.0.0.1:8080".into(), "t".into(), Trust::System, String::new());
    assert!(refused.err().expect("a refusal").to_string().contains("https://"));
}

/// A server of the API at `https://127.0.0.1:PORT` that answers each request alike, until a connection without one comes.
struct Server {
    url: String,
    certificate: String,
    /// Heads of the requests that came.
    heard: Arc<Mutex<Vec<String>>>,
}

/// What it answers when it knows its own URL.
fn serve(answer: impl FnOnce(&str) -> (u16, String)) -> Server {
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["127.0.0.1".into()])
        .expect("names")
        .self_signed(&key)
        .expect("a certificate");
    let secret = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let config = Arc::new(config.with_single_cert(vec![certificate.der().clone()], secret).expect("a pair"));
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let (status, body) = answer(&url);
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = heard.clone();
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).expect("a connection");
            let mut stream = BufReader::new(StreamOwned::new(connection, socket));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                // A client that does not trust the certificate ends the connection before it has sent anything.
                if stream.read_line(&mut head).unwrap_or(0) == 0 {
                    break;
                }
            }
            if head.is_empty() {
                continue;
            }
            noted.lock().expect("no panic").push(head);
            let length = body.len();
            let text =
                format!("HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            _ = stream.get_mut().write_all(text.as_bytes()).and_then(|()| stream.get_mut().flush());
            stream.get_mut().conn.send_close_notify();
            _ = stream.get_mut().flush();
        }
    });
    Server { url, certificate: certificate.pem(), heard }
}

fn standby(home: &str) -> Server {
    let problem = serde_json::json!({ "type": "urn:ashlar:problem:standby", "title": "Standby controller", "status": 503,
        "kind": "standby", "detail": "controller 2 is a standby", "home": home });
    serve(|_| (503, problem.to_string()))
}

fn home() -> Server {
    serve(|_| (200, "{}".into()))
}

/// A client of the first that trusts the certificates of `trusted`, in a file that lasts as long as the folder.
fn client(first: &Server, trusted: &[&Server]) -> (Client, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("trusted.pem");
    std::fs::write(&file, trusted.iter().map(|it| it.certificate.as_str()).collect::<String>())
        .expect("a file");
    let client = Client::new(first.url.clone(), "s3cret".into(), Trust::Exactly(file), String::new());
    (client.expect("a client"), folder)
}

fn ask(client: &Client) -> Result<()> {
    client.call(::client::api::show_array()).map(|_| ())
}

fn heard(server: &Server) -> usize {
    server.heard.lock().expect("no panic").len()
}

#[test]
fn a_standby_is_followed_to_the_home_which_is_asked_first_from_then_on() {
    let home = home();
    let standby = standby(&home.url);
    let (client, _folder) = client(&standby, &[&standby, &home]);
    ask(&client).expect("an answer");
    ask(&client).expect("an answer");
    assert_eq!((heard(&standby), heard(&home)), (1, 2));
    assert!(home.heard.lock().expect("no panic").iter().all(|head| head.contains("Bearer s3cret")));
}

#[test]
fn a_home_whose_certificate_is_not_trusted_gets_nothing() {
    let home = home();
    let standby = standby(&home.url);
    let (client, _folder) = client(&standby, &[&standby]);
    let refused = ask(&client).expect_err("a refusal").to_string();
    assert!(refused.contains(&home.url) && refused.contains("not trusted"), "{refused}");
    assert_eq!((heard(&standby), heard(&home)), (1, 0));
}

#[test]
fn a_home_that_is_not_encrypted_gets_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    listener.set_nonblocking(true).expect("a socket");
    let address = listener.local_addr().expect("an address");
    for home in
        [format!("http://{address}"), format!("{address}"), format!("https://{address}/x?y"), "https:".into()]
    {
        let standby = standby(&home);
        let (client, _folder) = client(&standby, &[&standby]);
        let refused = ask(&client).expect_err("a refusal").to_string();
        assert!(refused.starts_with("controller 2 is a standby; the token is not sent"), "{refused}");
    }
    assert!(listener.accept().is_err(), "no connection was made");
}

#[test]
fn the_token_of_a_data_folder_stays_on_its_machine() {
    let home = home();
    let standby = standby(&home.url);
    let (client, _folder) = client(&standby, &[&standby, &home]);
    let client = Client { of_folder: true, ..client };
    let refused = ask(&client).expect_err("a refusal").to_string();
    assert!(refused.contains("ashlar token create") && refused.contains(&home.url), "{refused}");
    assert_eq!(heard(&home), 0);
}

#[test]
fn controllers_that_refer_to_each_other_are_not_followed_for_ever() {
    let confused = serve(|own| {
        let problem = serde_json::json!({ "type": "x", "title": "x", "status": 503, "kind": "standby", "detail": "x", "home": own });
        (503, problem.to_string())
    });
    let (client, _folder) = client(&confused, &[&confused]);
    let refused = ask(&client).expect_err("a refusal").to_string();
    assert!(refused.contains("do not agree"), "{refused}");
    assert_eq!(heard(&confused), MAX_REFERRALS);
}
