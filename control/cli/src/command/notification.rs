//! Notification targets.

use super::{Shown, items};
use crate::ask;
use crate::client::Client;
use crate::show::{facts, rows, text};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;

/// How much an alert matters.
#[derive(Clone, Copy, ValueEnum)]
pub enum Severity {
    /// Good to know
    Info,
    /// Somebody should look soon
    Warning,
    /// Somebody must act now
    Critical,
}

/// How the way to a mail server is protected.
#[derive(Clone, Copy, ValueEnum)]
pub enum Protection {
    /// Not at all
    None,
    /// STARTTLS
    Starttls,
    /// TLS from the beginning
    Tls,
}

#[derive(Clone, Subcommand)]
pub enum NotificationVerb {
    /// Tell alerts to a webhook, a syslog receiver, by mail or by SNMP
    Create {
        /// 1 to 63 letters, digits, '-', '_' or '.'
        name: String,
        #[command(flatten)]
        destination: Box<Destination>,
        /// The key of a webhook's signatures, the password of the mail user, or the SNMP community or passphrase
        #[arg(long, env = "ASHLAR_NOTIFICATION_SECRET", hide_env_values = true)]
        secret: Option<String>,
        /// The least that an alert must matter [default: warning]
        #[arg(long, value_enum)]
        severity: Option<Severity>,
    },
    /// All targets
    List,
    /// One target
    Show {
        /// The target
        name: String,
    },
    /// Change a target
    Set {
        /// The target
        name: String,
        /// The least that an alert must matter
        #[arg(long, value_enum)]
        severity: Option<Severity>,
        /// Whether anything is sent
        #[arg(long)]
        enabled: Option<bool>,
    },
    /// Send a test, and say whether it arrived
    Test {
        /// The target
        name: String,
    },
    /// Forget a target
    Delete {
        /// The target
        name: String,
    },
}

/// Where notices go: one of these.
#[derive(Clone, Args)]
pub struct Destination {
    /// JSON by POST to this address
    #[arg(long, value_name = "URL", group = "way")]
    webhook: Option<String>,
    /// Syslog (RFC 5424) over TCP to this place
    #[arg(long, value_name = "HOST:PORT", group = "way")]
    syslog: Option<String>,
    /// Syslog over TLS instead
    #[arg(long, requires = "syslog")]
    tls: bool,
    /// SNMP traps to this place, such as 10.0.0.9:162: version 3 with --user, else 2c
    #[arg(long, value_name = "HOST:PORT", group = "way")]
    snmp: Option<String>,
    /// Mail to this address; may be given again
    #[arg(long, value_name = "ADDRESS", group = "way", requires_all = ["server", "from"])]
    email: Vec<String>,
    /// The mail server, such as mail.example.com:587
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// The sender of the mail
    #[arg(long, value_name = "ADDRESS")]
    from: Option<String>,
    /// How the way to the mail server is protected
    #[arg(long, value_enum, default_value = "starttls")]
    protection: Protection,
    /// Who logs in at the mail server, or the SNMP user (authentication by SHA-256, privacy by AES-128)
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// File with the certificates in PEM that are trusted there; the system's when not given
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

fn word(value: &impl ValueEnum) -> Value {
    value.to_possible_value().map_or(Value::Null, |value| json!(value.get_name()))
}

fn place(text: &str) -> Result<(String, u16)> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let (host, port) = parts.with_context(|| format!("{text:?} is no place: write HOST:PORT"))?;
    Ok((host.trim_matches(['[', ']']).to_owned(), port))
}

impl Destination {
    fn body(&self) -> Result<Value> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
        };
        let ca = self.ca.as_ref().map(read).transpose()?;
        if let Some(url) = &self.webhook {
            return Ok(json!({ "kind": "webhook", "url": url, "ca": ca }));
        }
        if let Some(syslog) = &self.syslog {
            let (host, port) = place(syslog)?;
            return Ok(json!({ "kind": "syslog", "host": host, "port": port, "tls": self.tls, "ca": ca }));
        }
        if let Some(snmp) = &self.snmp {
            let (host, port) = place(snmp)?;
            return Ok(json!({ "kind": "snmp", "host": host, "port": port, "user": self.user }));
        }
        let Some(server) = self.server.as_ref().filter(|_| !self.email.is_empty()) else {
            bail!("say where notices go: --webhook, --syslog, --email with --server and --from, or --snmp");
        };
        let (host, port) = place(server)?;
        Ok(json!({
            "kind": "email", "host": host, "port": port, "protection": word(&self.protection), "user": self.user,
            "from": self.from, "to": self.email, "ca": ca,
        }))
    }
}

const NOUN: &str = "notification-targets";

impl NotificationVerb {
    /// Does it.
    pub fn run(self, client: &Client) -> Result<Shown> {
        Ok(match self {
            NotificationVerb::Create { name, destination, secret, severity } => {
                let user = destination.user.clone();
                let asked = || user.map(|user| ask::secret(&format!("password of {user}"))).transpose();
                let place = destination.body()?;
                let secret = secret.map_or_else(asked, |secret| Ok(Some(secret)))?;
                let mut body = json!({ "name": name, "destination": place, "secret": secret });
                if let Some(severity) = severity {
                    body["severity"] = word(&severity);
                }
                (client.ask("POST", &[NOUN], Some(body))?, target)
            }
            NotificationVerb::List => (items(client.ask("GET", &[NOUN], None)?), targets),
            NotificationVerb::Show { name } => (client.ask("GET", &[NOUN, &name], None)?, target),
            NotificationVerb::Set { name, severity, enabled } => {
                let body = json!({ "severity": severity.map(|it| word(&it)), "enabled": enabled });
                (client.ask("PATCH", &[NOUN, &name], Some(body))?, target)
            }
            NotificationVerb::Test { name } => {
                client.ask("POST", &[NOUN, &name, "test"], None)?;
                (json!({ "tested": name }), |it| format!("The test arrived at {}.\n", text(&it["tested"])))
            }
            NotificationVerb::Delete { name } => {
                client.ask("DELETE", &[NOUN, &name], None)?;
                (json!({ "deleted": name }), crate::show::deleted)
            }
        })
    }
}

fn to(it: &Value) -> String {
    let destination = &it["destination"];
    match destination["kind"].as_str() {
        Some("webhook") => text(&destination["url"]),
        Some("email") => {
            let to: Vec<_> = destination["to"].as_array().into_iter().flatten().map(text).collect();
            to.join(", ")
        }
        _ => format!("{}:{}", text(&destination["host"]), text(&destination["port"])),
    }
}

fn target(it: &Value) -> String {
    facts(&[
        ("Target", text(&it["name"])),
        ("Kind", text(&it["destination"]["kind"])),
        ("To", to(it)),
        ("From severity", text(&it["severity"])),
        ("Enabled", text(&it["enabled"])),
        ("Secret", text(&it["has_secret"])),
        ("Delivered", text(&it["delivered"])),
        ("Failing", text(&it["failing"])),
        ("Waiting", text(&it["waiting"])),
        ("Lost", text(&it["lost"])),
    ])
}

fn targets(answer: &Value) -> String {
    rows(&["NAME", "KIND", "TO", "SEVERITY", "ENABLED", "DELIVERED", "FAILING"], answer, |it| {
        let field = |name: &str| text(&it[name]);
        let kind = text(&it["destination"]["kind"]);
        vec![
            field("name"),
            kind,
            to(it),
            field("severity"),
            field("enabled"),
            field("delivered"),
            field("failing"),
        ]
    })
}
