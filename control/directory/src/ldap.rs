//! LDAP: searches the user's entry, then checks the password by a simple bind (RFC 4511 4.2, RFC 4513 5.1.3).

use crate::{
    AuthorizationRequest, Credentials, Directory, DirectoryUser, Error, MAX_GROUPS, MAX_NAME_BYTES, Result,
    TIMEOUT, directory_user,
};
use crate::{is_loopback, is_readable};
use ldap3::{
    LdapConn, LdapConnSettings, LdapError, LdapResult, Scope, SearchEntry, SearchOptions, ldap_escape,
};
use records::{Ldap, mark};
use std::time::{Duration, Instant};

/// Result codes of RFC 4511, appendix A.
const SUCCESS: u32 = 0;
const SIZE_LIMIT_EXCEEDED: u32 = 4;
const NO_SUCH_OBJECT: u32 = 32;
const INVALID_CREDENTIALS: u32 = 49;
const BUSY: u32 = 51;
const UNAVAILABLE: u32 = 52;

/// The attribute of a user entry with the groups.
const MEMBER_OF: &str = "memberOf";
/// The attribute with the name of a group.
const COMMON_NAME: &str = "cn";
/// Maximum number of displayed characters of a server's message.
const MAX_SHOWN_CHARS: usize = 200;

/// An LDAP server.
pub struct Server {
    settings: Ldap,
    secret: Option<String>,
    /// Total time-out of all requests for one user.
    timeout: Duration,
}

/// A connection for one user's requests.
struct Exchange<'a> {
    server: &'a Server,
    connection: LdapConn,
    /// Time at which the requests time out.
    deadline: Instant,
}

/// Refuses settings that can't work. `secret`: whether there is one.
pub(crate) fn check(settings: &Ldap, secret: bool) -> Result<()> {
    // Without what may be a password: the audit log keeps errors.
    let shown = mark::shown_address(&settings.server);
    let wrong = |why: &str| Err(Error::failed(format!("the server {shown:?} {why}")));
    let place = match settings.server.split_once("://") {
        Some(("ldaps", place)) if !settings.starttls => place,
        Some(("ldaps", _)) => return wrong("uses TLS already: STARTTLS is for ldap://"),
        Some(("ldap", place)) => place,
        _ => return wrong("is not an address such as ldaps://ldap.example.com"),
    };
    if place.contains('@') {
        return wrong("must have neither user nor password: give a bind DN, and its password as the secret");
    }
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (place, None),
    };
    let is_valid = |letter: char| letter.is_ascii_alphanumeric() || "-_.:[]".contains(letter);
    let number = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    if host.is_empty() || host.len() > 253 || !host.chars().all(is_valid) || !number {
        return wrong("is not an address such as ldaps://ldap.example.com");
    }
    if encrypted(settings) && host.starts_with('[') {
        return wrong("is an IPv6 address: TLS needs a host name");
    }
    if !encrypted(settings) && !is_loopback(host) {
        return wrong("would receive passwords in clear text: use ldaps:// or STARTTLS");
    }
    if settings.bind_dn.is_some() != secret {
        return Err(Error::failed("give both a bind DN and its password, or neither"));
    }
    let names = [Some(&settings.base), settings.bind_dn.as_ref(), settings.group_base.as_ref()];
    if !names.into_iter().flatten().all(|it| is_readable(it)) {
        return Err(Error::failed("a distinguished name has 1 to 256 bytes"));
    }
    let attribute = &settings.user_attribute;
    let letter = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
    if attribute.is_empty() || attribute.len() > MAX_NAME_BYTES || !attribute.chars().all(letter) {
        return Err(Error::failed(format!(
            "{attribute:?} is not an attribute name, such as uid or sAMAccountName"
        )));
    }
    if settings.ca.is_some() && !encrypted(settings) {
        return Err(Error::failed("a CA certificate needs TLS"));
    }
    Ok(trust::check(settings.ca.as_deref())?)
}

fn encrypted(settings: &Ldap) -> bool {
    settings.starttls || settings.server.starts_with("ldaps:")
}

/// The filter (RFC 4515) for a user. The name is escaped.
fn user_filter(settings: &Ldap, name: &str) -> String {
    format!("({}={})", settings.user_attribute, ldap_escape(name))
}

/// The filter for the groups of a user.
fn group_filter(dn: &str, name: &str) -> String {
    let (dn, name) = (ldap_escape(dn), ldap_escape(name));
    format!("(|(member={dn})(uniqueMember={dn})(memberUid={name}))")
}

impl Server {
    pub fn new(settings: Ldap, secret: Option<&str>) -> Self {
        Self { settings, secret: secret.map(str::to_owned), timeout: TIMEOUT }
    }

    fn failed(&self, error: LdapError) -> Error {
        let detail = match &error {
            LdapError::LdapResult { result } => message_of(result),
            error => shown(&error.to_string()),
        };
        Error::failed(format!("the server {} failed: {detail}", self.settings.server))
    }

    /// Connects and binds for searches.
    fn connect(&self) -> Result<Exchange<'_>> {
        let deadline = Instant::now() + self.timeout;
        let mut settings =
            LdapConnSettings::new().set_conn_timeout(self.timeout).set_starttls(self.settings.starttls);
        if encrypted(&self.settings) {
            settings = settings.set_config(trust::config(trust::roots(self.settings.ca.as_deref())?)?);
        }
        let opened = LdapConn::with_settings(settings, &self.settings.server);
        let mut exchange =
            Exchange { server: self, connection: opened.map_err(|error| self.failed(error))?, deadline };
        exchange.bind_searcher()?;
        Ok(exchange)
    }
}

impl Exchange<'_> {
    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    fn bind(&mut self, dn: &str, password: &str) -> Result<LdapResult> {
        let remaining = self.remaining();
        let bound = self.connection.with_timeout(remaining).simple_bind(dn, password);
        bound.map_err(|error| self.server.failed(error))
    }

    fn bind_searcher(&mut self) -> Result<()> {
        let Server { settings, secret, .. } = self.server;
        let (Some(dn), Some(secret)) = (&settings.bind_dn, secret) else { return Ok(()) };
        match self.bind(dn, secret)? {
            it if it.rc == SUCCESS => Ok(()),
            it if it.rc == INVALID_CREDENTIALS => Err(Error::failed(format!(
                "the server {} rejected the bind DN or its password",
                settings.server
            ))),
            it => Err(self.server.failed(LdapError::from(it))),
        }
    }

    /// Entries below a base, at most `max_entries`; returns whether these are all.
    fn search(
        &mut self,
        base: &str,
        filter: &str,
        attributes: &[&str],
        max_entries: usize,
    ) -> Result<(Vec<SearchEntry>, bool)> {
        let (server, remaining, deadline) = (self.server, self.remaining(), self.deadline);
        let failed = |error| server.failed(error);
        let options =
            SearchOptions::new().sizelimit(max_entries as i32).timelimit(remaining.as_secs() as i32 + 1);
        let connection = self.connection.with_search_options(options).with_timeout(remaining);
        let mut stream =
            connection.streaming_search(base, Scope::Subtree, filter, attributes.to_vec()).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(entry) = stream.next().map_err(failed)? {
            // A server may ignore the time limit of the search.
            if Instant::now() > deadline {
                return Err(Error::failed(format!(
                    "the server {} did not respond in time",
                    server.settings.server
                )));
            }
            // Referrals to other servers are not followed: no operator has trusted those servers.
            if entry.is_ref() || entry.is_intermediate() {
                continue;
            }
            if found.len() == max_entries {
                return Ok((found, false));
            }
            found.push(SearchEntry::construct(entry));
        }
        let result = stream.result();
        match result.rc {
            SUCCESS => Ok((found, true)),
            SIZE_LIMIT_EXCEEDED => Ok((found, false)),
            NO_SUCH_OBJECT => Err(Error::failed(format!("the directory has no entry {base:?}"))),
            _ => Err(failed(LdapError::from(result))),
        }
    }

    /// The entry of a user, which must be unique.
    fn find(&mut self, name: &str) -> Result<Option<SearchEntry>> {
        let Ldap { base, user_attribute, .. } = &self.server.settings;
        let filter = user_filter(&self.server.settings, name);
        let (mut found, all) = self.search(base, &filter, &[user_attribute, MEMBER_OF], 2)?;
        if found.len() > 1 || !all {
            return Err(Error::refused(format!("several entries below {base:?} have this user name")));
        }
        Ok(found.pop().filter(|it| !it.dn.is_empty()))
    }

    fn groups(&mut self, found: &SearchEntry, name: &str) -> Result<Vec<String>> {
        let Some(base) = &self.server.settings.group_base else {
            return Ok(values(found, MEMBER_OF));
        };
        self.bind_searcher()?;
        let (groups, _) = self.search(base, &group_filter(&found.dn, name), &[COMMON_NAME], MAX_GROUPS)?;
        Ok(groups.iter().flat_map(|group| values(group, COMMON_NAME)).collect())
    }
}

/// A server's message for operators.
fn message_of(result: &LdapResult) -> String {
    shown(&format!("{} ({})", result.text, result.rc))
}

fn shown(text: &str) -> String {
    text::shown(text, MAX_SHOWN_CHARS, "")
}

/// The values of an attribute; its name is case-insensitive.
fn values(entry: &SearchEntry, attribute: &str) -> Vec<String> {
    let same = |(name, _): &(&String, &Vec<String>)| name.eq_ignore_ascii_case(attribute);
    entry.attrs.iter().find(same).map(|(_, values)| values.clone()).unwrap_or_default()
}

impl Directory for Server {
    fn test(&self) -> Result<String> {
        let mut exchange = self.connect()?;
        let Ldap { server, base, user_attribute, group_base, .. } = &self.settings;
        let (users, _) = exchange.search(base, &format!("({user_attribute}=*)"), &[user_attribute], 1)?;
        let Some(one) = users.first() else {
            return Err(Error::failed(format!(
                "no entry below {base:?} has the attribute {user_attribute:?}"
            )));
        };
        if let Some(base) = group_base {
            exchange.search(base, &format!("({COMMON_NAME}=*)"), &[COMMON_NAME], 1)?;
        }
        Ok(format!("{server} responds; an example of a user is {}", shown(&one.dn)))
    }

    fn begin_authorization(&self) -> Result<Option<AuthorizationRequest>> {
        Ok(None)
    }

    fn authenticate(&self, credentials: &Credentials) -> Result<DirectoryUser> {
        let Credentials::Password { user, password } = credentials else {
            return Err(Error::refused("users of this directory sign in with a password"));
        };
        let denied = || Error::refused("there is no such user, or the password is wrong");
        // A bind without a password succeeds as anonymous (RFC 4513 5.1.2).
        if password.is_empty() || !is_readable(user) {
            return Err(denied());
        }
        let mut exchange = self.connect()?;
        let Some(found) = exchange.find(user)? else {
            // An unknown name takes the same number of round trips as a known one.
            exchange.bind(&format!("cn=unknown,{}", self.settings.base), password)?;
            return Err(denied());
        };
        match exchange.bind(&found.dn, password)? {
            it if it.rc == SUCCESS => {}
            it if it.rc == INVALID_CREDENTIALS => return Err(denied()),
            it if [BUSY, UNAVAILABLE].contains(&it.rc) => return Err(self.failed(LdapError::from(it))),
            it => return Err(Error::refused(format!("the directory refused the bind: {}", message_of(&it)))),
        }
        // In the directory's spelling: its names are case-insensitive.
        let names = values(&found, &self.settings.user_attribute);
        let given = names.iter().find(|name| name.to_lowercase() == user.to_lowercase());
        let name = given.or(names.first()).map_or(*user, String::as_str).to_owned();
        let groups = exchange.groups(&found, &name)?;
        // A failure to unbind does not matter.
        let _ = exchange.connection.unbind();
        directory_user(name, groups)
    }
}

#[cfg(test)]
#[path = "ldap_test.rs"]
mod tests;
