//! Access to the API of an array: where it is, sending requests, and reading responses and refusals.

use crate::profile::Profiles;
use crate::trust::Trust;
use anyhow::{Context, Result, anyhow, bail, ensure};
use client::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use ureq::http::{Response, StatusCode};

/// Default data folder of `ashlard`.
const DEFAULT_DATA: &str = "/var/lib/ashlar";

/// Default port of the API.
const DEFAULT_PORT: u16 = 8443;

/// Maximum size of a response that is not JSON.
const MAX_DOWNLOAD_BYTES: u64 = 1 << 30;

/// Maximum number of controllers that are asked for one request. Each but the first is asked because the one before
/// redirects to it.
const MAX_REFERRALS: usize = 4;

/// Clears a terminal and moves the cursor to its top.
pub const CLEAR: &str = "\x1b[2J\x1b[H";

/// Options that say which array to use.
#[derive(Debug, Default)]
pub struct Location {
    /// Data folder of an array on this machine, with its address and token.
    pub data: Option<PathBuf>,
    /// URL of the API.
    pub array: Option<String>,
    /// Its token.
    pub token: Option<String>,
    /// Its certificate, in PEM.
    pub certificate: Option<PathBuf>,
    /// Name of a profile.
    pub profile: Option<String>,
}

/// A response, as the array sent it.
pub struct Answer<A> {
    /// Its JSON; null if it is empty.
    pub value: Value,
    /// Its ETag.
    pub tag: String,
    /// What was to be created existed already with equal content.
    pub existed: bool,
    /// Name of its schema in the description of the API.
    pub schema: &'static str,
    kind: PhantomData<fn() -> A>,
}

/// An address of the API.
struct Address {
    url: String,
    agent: ureq::Agent,
}

/// A connection to an array's API.
pub struct Client {
    /// The address that was given.
    given: Arc<Address>,
    /// The controller that serves the array, if the one at the given address is a standby.
    home: Mutex<Option<Arc<Address>>>,
    trust: Trust,
    token: String,
    /// The token is of a data folder, and no other controller knows it.
    of_folder: bool,
    started_by: String,
    reads: bool,
    /// Conditions and order of lists.
    part: (Option<String>, Option<String>),
    /// ID of the daemon's process, if it runs on this machine.
    process: Option<u64>,
}

impl Client {
    /// Finds the array: `--array`, `--data`, `--profile`, ASHLAR_ARRAY, ASHLAR_DATA, ASHLAR_PROFILE, the default profile, or
    /// the default folder, in this order.
    pub fn find(mut location: Location) -> Result<Client> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let given = location.data.is_some() || location.array.is_some();
        let in_environment = variable("ASHLAR_ARRAY").is_some() || variable("ASHLAR_DATA").is_some();
        let profile = match location.profile.take() {
            Some(name) => Some(Profiles::read()?.take(&name)?),
            None if given || in_environment => None,
            None => match variable("ASHLAR_PROFILE") {
                Some(name) => Some(Profiles::read()?.take(&name)?),
                None => Profiles::read()?.default_profile()?,
            },
        };
        if let Some(profile) = profile {
            location.array = location.array.or(profile.url);
            location.data = location.data.or(profile.data);
            location.token = location.token.or(profile.token);
            location.certificate = location.certificate.or(profile.certificate);
        }
        let array = match &location.data {
            Some(_) => None,
            None => location.array.or_else(|| variable("ASHLAR_ARRAY")),
        };
        if let Some(url) = array.map(whole) {
            let token = location.token.or_else(|| variable("ASHLAR_TOKEN")).context(
                "--array needs the array's token: give --token or set ASHLAR_TOKEN; it is in api.json in the \
                 folder that ashlard was started with",
            )?;
            let certificate = location.certificate.or_else(|| variable("ASHLAR_CERTIFICATE").map(Into::into));
            let trust = certificate.map_or(Trust::System, Trust::Authorities);
            return Self::new(url, token, trust, "on that machine".into());
        }
        let data = location.data.or_else(|| variable("ASHLAR_DATA").map(Into::into));
        let data = data.unwrap_or_else(|| DEFAULT_DATA.into());
        let (url, token, process) = read_access(&data)?;
        let of_folder = location.token.is_none();
        let token = location.token.unwrap_or(token);
        let shown = || Trust::Exactly(data.join("tls.pem"));
        let trust = location.certificate.map_or_else(shown, Trust::Authorities);
        let started_by = format!("with `ashlard --data {} …`, or `systemctl start ashlard`", data.display());
        let client = Self::new(url, token, trust, started_by)?;
        Ok(Client { process, of_folder, ..client })
    }

    /// ID of the daemon's process; `None` if it runs elsewhere.
    pub fn process(&self) -> Option<u64> {
        self.process
    }

    fn new(url: String, token: String, trust: Trust, started_by: String) -> Result<Client> {
        ensure!(
            !goes_in_clear(&url),
            "the token would go to {url} in clear: use https://, with --certificate FILE if the array shows its own \
             certificate (tls.pem in the folder that ashlard was started with)"
        );
        let (agent, url) = (trust.agent(&url)?, url.trim_end_matches('/').into());
        Ok(Client {
            given: Arc::new(Address { url, agent }),
            home: Mutex::default(),
            trust,
            token,
            of_folder: false,
            started_by,
            reads: false,
            part: (None, None),
            process: None,
        })
    }

    /// From now on refuses requests that may change something.
    pub fn only_read(&mut self) {
        self.reads = true;
    }

    /// From now on asks for the items of lists that meet conditions, in an order.
    pub fn take_part(&mut self, filter: Option<String>, sort: Option<String>) {
        self.part = (filter, sort);
    }

    /// Sends a request.
    pub fn call<A>(&self, request: Request<A>) -> Result<Answer<A>> {
        let request = self.in_part(request)?;
        read(self.exchange(&request, None)?, &request)
    }

    /// The request with conditions and order, if its response is a list.
    fn in_part<A>(&self, mut request: Request<A>) -> Result<Request<A>> {
        let (filter, sort) = &self.part;
        if filter.is_none() && sort.is_none() {
            return Ok(request);
        }
        for (name, value) in [("filter", filter), ("sort", sort)] {
            let Some(value) = value else { continue };
            ensure!(request.takes(name), "--{name} is for lists, and not for all of them: leave it out");
            request = request.with(name, value);
        }
        Ok(request)
    }

    /// Sends a change that is refused unless the object still has the tag.
    pub fn call_if<A>(&self, tag: &str, request: Request<A>) -> Result<Answer<A>> {
        read(self.exchange(&request, Some(tag))?, &request)
    }

    /// Sends a request whose response is not JSON.
    pub fn download<A>(&self, request: &Request<A>) -> Result<Vec<u8>> {
        let mut response = self.exchange(request, None)?;
        let body = response.body_mut().with_config().limit(MAX_DOWNLOAD_BYTES);
        body.read_to_vec().context("the array's answer broke off")
    }

    /// The response, unless it is a refusal.
    fn exchange<A>(&self, wanted: &Request<A>, tag: Option<&str>) -> Result<Response<ureq::Body>> {
        ensure!(
            !self.reads || wanted.method == "GET",
            "--watch is only for commands that change nothing: leave it out"
        );
        let known = self.home.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut address = known.unwrap_or_else(|| self.given.clone());
        for _ in 0..MAX_REFERRALS {
            let reached = self.reach(&address, wanted, tag);
            if reached.is_err() {
                // The next request asks the given address again.
                self.note_home(None);
            }
            let mut response = reached?;
            if response.status().is_success() {
                return Ok(response);
            }
            let text = response.body_mut().read_to_string().context("the array's answer broke off")?;
            let Some((detail, home)) = referral(response.status(), &text) else {
                return Err(problem(response.status(), &text, &wanted.path));
            };
            address = Arc::new(self.follow(&detail, &home)?);
            self.note_home(Some(address.clone()));
        }
        self.note_home(None);
        bail!("the controllers do not agree which of them serves the array: try again in a few seconds")
    }

    fn note_home(&self, home: Option<Arc<Address>>) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = home;
    }

    /// The controller that serves the array, as a standby reports it. The address is not verified: the token goes there only
    /// over TLS, to a server whose certificate is trusted as that of the given address has to be.
    fn follow(&self, detail: &str, home: &str) -> Result<Address> {
        ensure!(
            !self.of_folder,
            "{detail}; it does not know the token of this machine's data folder: use `ashlar --array {home}` with a token of \
             the array, which `ashlar token create` makes there"
        );
        let encrypted = home
            .parse::<ureq::http::Uri>()
            .is_ok_and(|it| it.scheme_str() == Some("https") && it.authority().is_some() && it.path() == "/");
        ensure!(
            encrypted,
            "{detail}; the token is not sent there, as it would go in clear: use `ashlar --array URL` with an address that is \
             encrypted or on this machine"
        );
        Ok(Address { url: home.trim_end_matches('/').into(), agent: self.trust.agent(home)? })
    }

    /// The response of the server at an address.
    fn reach<A>(
        &self,
        address: &Address,
        wanted: &Request<A>,
        tag: Option<&str>,
    ) -> Result<Response<ureq::Body>> {
        let mut sent = self.send(address, wanted, tag)?;
        // A certificate that replaces another is in the file before it is in use, but maybe after this program read the
        // file. Nothing was sent to a server that is not trusted.
        if sent.as_ref().is_err_and(is_untrusted) && self.trust.file().is_some() {
            let again = Address { url: address.url.clone(), agent: self.trust.agent(&address.url)? };
            sent = self.send(&again, wanted, tag)?;
        }
        sent.map_err(|error| self.unreached(&error, &address.url))
    }

    fn unreached(&self, error: &ureq::Error, url: &str) -> anyhow::Error {
        let started_by = &self.started_by;
        match (&self.trust, is_untrusted(error)) {
            (Trust::Exactly(file), true) if url == self.given.url => anyhow!(
                "the server at {url} does not have the certificate in {0}, and nothing was sent to it ({error}): if it is \
                 the array of that folder, a restart of ashlard writes {0} again",
                file.display()
            ),
            (_, true) => anyhow!(
                "the certificate of the server at {url} is not trusted, and nothing was sent to it ({error}): give the \
                 certificate of the array, or of its issuer, with --certificate FILE"
            ),
            (_, false) => {
                anyhow!("can't reach the array at {url}: {error}; is it running? Start it {started_by}")
            }
        }
    }

    fn send<A>(
        &self,
        Address { url, agent }: &Address,
        wanted: &Request<A>,
        tag: Option<&str>,
    ) -> Result<std::result::Result<Response<ureq::Body>, ureq::Error>> {
        let mut request = ureq::http::Request::builder()
            .method(wanted.method)
            .uri(format!("{url}{}{}", wanted.path, wanted.query))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        if let Some(tag) = tag {
            request = request.header("if-match", tag);
        }
        Ok(match &wanted.body {
            Some(body) => agent.run(request.body(body.to_string())?),
            None => agent.run(request.body(())?),
        })
    }
}

/// Whether the server's certificate was refused, so that nothing was sent.
fn is_untrusted(error: &ureq::Error) -> bool {
    let refused = |error: &rustls::Error| matches!(error, rustls::Error::InvalidCertificate(_));
    match error {
        ureq::Error::Rustls(error) => refused(error),
        ureq::Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()).is_some_and(refused),
        _ => false,
    }
}

impl<A: DeserializeOwned> Answer<A> {
    /// The response in its type.
    pub fn read(&self) -> Result<A> {
        A::deserialize(&self.value)
            .context("the array's version is not the one of this `ashlar`: use the same version")
    }
}

/// A URL; of an address alone, the one that an array there has by default.
fn whole(array: String) -> String {
    if array.contains("://") {
        return array;
    }
    match (host_and_port(&array), array.parse::<std::net::Ipv6Addr>()) {
        ((_, Some(_)), _) => format!("https://{array}"),
        (_, Ok(address)) => format!("https://[{address}]:{DEFAULT_PORT}"),
        _ => format!("https://{array}:{DEFAULT_PORT}"),
    }
}

/// A host name or address, and the port after it if there is one. An IPv6 address with a port is in brackets.
pub fn host_and_port(text: &str) -> (&str, Option<&str>) {
    let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
    match text.rsplit_once(':').filter(|(_, port)| !is_address && !port.ends_with(']')) {
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    }
}

/// Whether the network could read what is sent to that address: it is neither on this machine nor encrypted.
fn goes_in_clear(url: &str) -> bool {
    let Ok(address) = url.parse::<ureq::http::Uri>() else { return true };
    let host = address.host().unwrap_or_default();
    let here = host.eq_ignore_ascii_case("localhost")
        || host
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|it| it.to_canonical().is_loopback() || it.is_unspecified());
    !here && address.scheme_str().is_none_or(|scheme| !scheme.eq_ignore_ascii_case("https"))
}

fn read<A>(mut response: Response<ureq::Body>, request: &Request<A>) -> Result<Answer<A>> {
    let existed = request.method == "POST" && response.status() == StatusCode::OK;
    let tag = response.headers().get("etag").and_then(|tag| tag.to_str().ok()).unwrap_or_default();
    let tag = tag.to_owned();
    let text = response.body_mut().read_to_string().context("the array's answer broke off")?;
    let value = match text.is_empty() {
        true => Value::Null,
        false => serde_json::from_str(&text).context("the array's answer is not JSON")?,
    };
    Ok(Answer { value, tag, existed, schema: request.schema, kind: PhantomData })
}

/// The noun of the command line for the first segment of a path: `volume` for `volumes`.
fn noun(path: &str) -> Option<String> {
    let segment = path.strip_prefix("/api/v1/")?.split('/').next()?;
    Some(match segment {
        "notification-targets" => "notification".into(),
        "recycle-bin" => segment.into(),
        _ => match segment.strip_suffix("ies") {
            Some(stem) => format!("{stem}y"),
            None => segment.strip_suffix('s')?.into(),
        },
    })
}

/// What a standby says, and the URL of the controller that serves the array; `None` if it is another answer, or no
/// controller serves it.
fn referral(status: StatusCode, text: &str) -> Option<(String, String)> {
    let problem: Value =
        serde_json::from_str(text).ok().filter(|_| status == StatusCode::SERVICE_UNAVAILABLE)?;
    let field = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
    field("kind").filter(|kind| kind == "standby")?;
    Some((field("detail")?, field("home")?))
}

/// A refusal that is about a field of the request.
#[derive(Debug)]
pub struct Refusal {
    detail: String,
    /// The field, as the API has it.
    pub field: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for Refusal {}

/// The reason for a refusal, and what to do next.
fn problem(status: StatusCode, text: &str, path: &str) -> anyhow::Error {
    let problem = serde_json::from_str::<Value>(text).unwrap_or_default();
    let [detail, field] = ["detail", "field"].map(|name| problem[name].as_str().map(str::to_owned));
    match (status, detail) {
        (StatusCode::UNAUTHORIZED, detail) => anyhow!(
            "{}; it is in api.json in the folder that ashlard was started with",
            detail.unwrap_or_else(|| "the array does not accept this token".into())
        ),
        (_, Some(detail)) if field.is_some() => anyhow!(Refusal { detail, field: field.unwrap_or_default() }),
        (StatusCode::NOT_FOUND, Some(detail)) => match noun(path) {
            Some(noun) => anyhow!("{detail}; `ashlar {noun} list` shows all"),
            None => anyhow!(detail),
        },
        (_, Some(detail)) => anyhow!(detail),
        (status, None) => anyhow!("the array answered {status}; is it really an Ashlar array?"),
    }
}

/// Address, token and process of the array that was started in a folder.
fn read_access(data: &Path) -> Result<(String, String, Option<u64>)> {
    let path = data.join("api.json");
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => bail!(
            "no array has been started in {}: configure and start the service (`systemctl start ashlard`), start one with \
             `ashlard --data {} --iscsi ADDR`, or name another with --data DIR or --array URL",
            data.display(),
            data.display()
        ),
        Err(error) => {
            return Err(error).with_context(|| format!("can't read {}; are you its owner?", path.display()));
        }
    };
    let access: Value =
        serde_json::from_slice(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let field = |name: &str| {
        access.get(name).and_then(Value::as_str).map(str::to_owned).with_context(|| {
            format!("{} has no {name:?}; a restart of ashlard writes it again", path.display())
        })
    };
    Ok((field("url")?, field("token")?, access.get("pid").and_then(Value::as_u64)))
}

#[cfg(test)]
#[path = "client_test.rs"]
mod tests;
