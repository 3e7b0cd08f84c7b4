//! Notifications by e-mail (SMTP).

use crate::{Error, MAX_RECIPIENTS, Notification, Protection, Result, TIMEOUT, severity_name};
use history::utc;
use lettre::message::Mailbox;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{Message, SmtpTransport, Transport};

/// The mail server.
pub struct Server<'a> {
    pub host: &'a str,
    pub port: u16,
    pub protection: Protection,
    /// User and password.
    pub login: Option<(&'a str, &'a str)>,
    pub ca: Option<&'a str>,
}

fn mailbox(address: &str) -> Result<Mailbox> {
    address.parse().map_err(|_| Error::new(format!("{address:?} is not a mail address")))
}

/// Checks the addresses.
pub fn check(from: &str, to: &[String]) -> Result<()> {
    if to.is_empty() || to.len() > MAX_RECIPIENTS {
        return Err(Error::new(format!("an e-mail target has 1 to {MAX_RECIPIENTS} recipients")));
    }
    mailbox(from)?;
    to.iter().try_for_each(|address| mailbox(address).map(drop))
}

pub fn message(from: &str, to: &[String], notification: &Notification) -> Result<Message> {
    let (alert, condition) = (&notification.alert, &notification.alert.condition);
    let what = match notification.event() {
        "alert.closed" => "closed",
        "test" => "test",
        _ => severity_name(condition.severity),
    };
    let about = match (&condition.noun, &condition.name) {
        (Some(noun), Some(name)) => format!("{noun} {name}"),
        _ => "the array".into(),
    };
    let closed = alert.closed.map(|time| format!("Closed:   {}\n", utc(time))).unwrap_or_default();
    let text = format!(
        "{}\n\nArray:    {} ({})\nAbout:    {about}\nAlert:    {} ({})\nSeverity: {}\nOpened:   {}\n{closed}",
        condition.message,
        notification.array,
        notification.serial,
        alert.id,
        condition.kind,
        severity_name(condition.severity),
        utc(alert.opened),
    );
    let subject = format!("[{}] {what}: {} ({about})", notification.array, condition.kind);
    let mut mail = Message::builder().from(mailbox(from)?).subject(subject);
    for address in to {
        mail = mail.to(mailbox(address)?);
    }
    mail.body(text).map_err(|error| Error::new(format!("the mail can't be composed: {error}")))
}

pub fn send(server: &Server<'_>, from: &str, to: &[String], notification: &Notification) -> Result<()> {
    let mail = message(from, to, notification)?;
    let tls = match server.protection {
        Protection::None => Tls::None,
        Protection::Starttls => Tls::Required(parameters(server)?),
        Protection::Tls => Tls::Wrapper(parameters(server)?),
    };
    let mut transport =
        SmtpTransport::builder_dangerous(server.host).port(server.port).tls(tls).timeout(Some(TIMEOUT));
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
