//! A notice as electronic mail.

use crate::{Error, MOST_RECEIVERS, Notice, PATIENCE, Protection, Result, utc, word};
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};

/// Where mail is handed over.
pub struct Server<'a> {
    pub host: &'a str,
    pub port: u16,
    pub protection: Protection,
    /// User and password.
    pub login: Option<(&'a str, &'a str)>,
    pub ca: Option<&'a str>,
}

fn mailbox(address: &str) -> Result<Mailbox> {
    address.parse().map_err(|_| Error::new(format!("{address:?} is no mail address")))
}

/// Refuses what is no address.
pub fn check(from: &str, to: &[String]) -> Result<()> {
    if to.is_empty() || to.len() > MOST_RECEIVERS {
        return Err(Error::new(format!("a mail has 1 to {MOST_RECEIVERS} receivers")));
    }
    mailbox(from)?;
    to.iter().try_for_each(|address| mailbox(address).map(drop))
}

pub fn message(from: &str, to: &[String], notice: &Notice) -> Result<Message> {
    let (alert, condition) = (&notice.alert, &notice.alert.condition);
    let what = match notice.event() {
        "alert.closed" => "over",
        "test" => "test",
        _ => word(condition.severity),
    };
    let about = match (&condition.noun, &condition.name) {
        (Some(noun), Some(name)) => format!("{noun} {name}"),
        _ => "the array".into(),
    };
    let closed = alert.closed.map(|time| format!("Over:     {}\n", utc(time))).unwrap_or_default();
    let text = format!(
        "{}\n\nArray:    {} ({})\nAbout:    {about}\nAlert:    {} ({})\nSeverity: {}\nBegan:    {}\n{closed}",
        condition.message,
        notice.array,
        notice.serial,
        alert.id,
        condition.kind,
        word(condition.severity),
        utc(alert.opened),
    );
    let subject = format!("[{}] {what}: {} ({about})", notice.array, condition.kind);
    let mut mail = Message::builder().from(mailbox(from)?).subject(subject);
    for address in to {
        mail = mail.to(mailbox(address)?);
    }
    mail.body(text).map_err(|error| Error::new(format!("the mail can't be written: {error}")))
}

pub fn send(server: &Server<'_>, from: &str, to: &[String], notice: &Notice) -> Result<()> {
    let mail = message(from, to, notice)?;
    let tls = match server.protection {
        Protection::None => Tls::None,
        Protection::Starttls => Tls::Required(parameters(server)?),
        Protection::Tls => Tls::Wrapper(parameters(server)?),
    };
    let mut transport =
        SmtpTransport::builder_dangerous(server.host).port(server.port).tls(tls).timeout(Some(PATIENCE));
    if let Some((user, password)) = server.login {
        transport = transport.credentials(Credentials::new(user.into(), password.into()));
    }
    let sent = transport.build().send(&mail);
    sent.map(drop).map_err(|error| Error::new(format!("the mail server {} refused: {error}", server.host)))
}

fn parameters(server: &Server<'_>) -> Result<TlsParameters> {
    let failed = |error: lettre::transport::smtp::Error| Error::new(format!("TLS can't be used: {error}"));
    let mut parameters =
        TlsParameters::builder(server.host.to_owned()).certificate_store(CertificateStore::None);
    for root in trust::roots(server.ca)? {
        parameters = parameters.add_root_certificate(Certificate::from_der(root.to_vec()).map_err(failed)?);
    }
    parameters.build().map_err(failed)
}
