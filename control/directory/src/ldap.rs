//! LDAP: somebody is searched for, and then proves the password by a simple bind (RFC 4511 4.2, RFC 4513 5.1.3).

use crate::{
    Directory, Error, Journey, LONGEST_NAME, Ldap, MOST_GROUPS, PATIENCE, Person, Proof, Result, person,
};
use crate::{is_here, is_readable};
use ldap3::{
    LdapConn, LdapConnSettings, LdapError, LdapResult, Scope, SearchEntry, SearchOptions, ldap_escape,
};
use std::time::{Duration, Instant};

/// Result codes of RFC 4511, appendix A.
const SUCCESS: u32 = 0;
const SIZE_LIMIT_EXCEEDED: u32 = 4;
const NO_SUCH_OBJECT: u32 = 32;
const INVALID_CREDENTIALS: u32 = 49;
const BUSY: u32 = 51;
const UNAVAILABLE: u32 = 52;

/// Where a server that knows the groups of its people writes them down.
const MEMBER_OF: &str = "memberOf";
/// What a group is called.
const COMMON_NAME: &str = "cn";
/// Most that is told of what a server said.
const SHOWN: usize = 200;

/// A server of LDAP.
pub struct Server {
    settings: Ldap,
    secret: Option<String>,
    /// How long everything may take that is asked for one person.
    patience: Duration,
}

/// What is asked on one connection.
struct Talk<'a> {
    server: &'a Server,
    connection: LdapConn,
    /// When it has taken too long.
    until: Instant,
}

impl Ldap {
    pub(crate) fn check(&self, secret: bool) -> Result<()> {
        let wrong = |why: &str| Err(Error::failed(format!("the server {:?} {why}", self.server)));
        let place = match self.server.split_once("://") {
            Some(("ldaps", place)) if !self.starttls => place,
            Some(("ldaps", _)) => return wrong("speaks TLS from the beginning: STARTTLS is for ldap://"),
            Some(("ldap", place)) => place,
            _ => return wrong("is no address such as ldaps://ldap.example.com"),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (place, None),
        };
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_.:[]".contains(letter);
        let number = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if host.is_empty() || host.len() > 253 || !host.chars().all(fine) || !number {
            return wrong("is no address such as ldaps://ldap.example.com");
        }
        if self.encrypted() && host.starts_with('[') {
            return wrong("is told by an address of IPv6: with TLS it needs a name");
        }
        if !self.encrypted() && !is_here(host) {
            return wrong("would get passwords that others can hear: use ldaps://, or STARTTLS");
        }
        if self.bind_dn.is_some() != secret {
            return Err(Error::failed("who searches the directory and a secret belong together"));
        }
        let names = [Some(&self.base), self.bind_dn.as_ref(), self.group_base.as_ref()];
        if !names.into_iter().flatten().all(|it| is_readable(it)) {
            return Err(Error::failed("a distinguished name has 1 to 256 bytes"));
        }
        let attribute = &self.user_attribute;
        let letter = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
        if attribute.is_empty() || attribute.len() > LONGEST_NAME || !attribute.chars().all(letter) {
            return Err(Error::failed(format!("{attribute:?} is no attribute: uid and sAMAccountName are")));
        }
        if self.ca.is_some() && !self.encrypted() {
            return Err(Error::failed("without TLS no certificate is looked at"));
        }
        Ok(trust::check(self.ca.as_deref())?)
    }

    fn encrypted(&self) -> bool {
        self.starttls || self.server.starts_with("ldaps:")
    }

    /// The filter (RFC 4515) that finds a person. The name can't say more than a name.
    fn of_person(&self, name: &str) -> String {
        format!("({}={})", self.user_attribute, ldap_escape(name))
    }
}

/// The filter that finds the groups of somebody.
fn of_groups(dn: &str, name: &str) -> String {
    let (dn, name) = (ldap_escape(dn), ldap_escape(name));
    format!("(|(member={dn})(uniqueMember={dn})(memberUid={name}))")
}

impl Server {
    pub fn new(settings: Ldap, secret: Option<&str>) -> Self {
        Self { settings, secret: secret.map(str::to_owned), patience: PATIENCE }
    }

    fn failed(&self, error: LdapError) -> Error {
        let said = match &error {
            LdapError::LdapResult { result } => told(result),
            error => shown(&error.to_string()),
        };
        Error::failed(format!("the server {} can't be asked: {said}", self.settings.server))
    }

    /// A connection on which whoever searches is known.
    fn connect(&self) -> Result<Talk<'_>> {
        let until = Instant::now() + self.patience;
        let mut settings =
            LdapConnSettings::new().set_conn_timeout(self.patience).set_starttls(self.settings.starttls);
        if self.settings.encrypted() {
            settings = settings.set_config(trust::config(trust::roots(self.settings.ca.as_deref())?)?);
        }
        let opened = LdapConn::with_settings(settings, &self.settings.server);
        let mut talk = Talk { server: self, connection: opened.map_err(|error| self.failed(error))?, until };
        talk.bind_searcher()?;
        Ok(talk)
    }
}

impl Talk<'_> {
    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn bind(&mut self, dn: &str, password: &str) -> Result<LdapResult> {
        let left = self.left();
        let bound = self.connection.with_timeout(left).simple_bind(dn, password);
        bound.map_err(|error| self.server.failed(error))
    }

    fn bind_searcher(&mut self) -> Result<()> {
        let Server { settings, secret, .. } = self.server;
        let (Some(dn), Some(secret)) = (&settings.bind_dn, secret) else { return Ok(()) };
        match self.bind(dn, secret)? {
            it if it.rc == SUCCESS => Ok(()),
            it if it.rc == INVALID_CREDENTIALS => Err(Error::failed(format!(
                "the server {} does not take the name and secret of who searches",
                settings.server
            ))),
            it => Err(self.server.failed(LdapError::from(it))),
        }
    }

    /// What is found below a place, `most` at most, and whether that is all.
    fn search(
        &mut self,
        base: &str,
        filter: &str,
        attributes: &[&str],
        most: usize,
    ) -> Result<(Vec<SearchEntry>, bool)> {
        let (server, left, until) = (self.server, self.left(), self.until);
        let failed = |error| server.failed(error);
        let options = SearchOptions::new().sizelimit(most as i32).timelimit(left.as_secs() as i32 + 1);
        let connection = self.connection.with_search_options(options).with_timeout(left);
        let mut stream =
            connection.streaming_search(base, Scope::Subtree, filter, attributes.to_vec()).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(entry) = stream.next().map_err(failed)? {
            // A server need not keep to limits, but nobody waits for it then.
            if Instant::now() > until {
                return Err(Error::failed(format!("the server {} takes too long", server.settings.server)));
            }
            // References to other servers are not followed: nobody said that they are trusted.
            if entry.is_ref() || entry.is_intermediate() {
                continue;
            }
            if found.len() == most {
                return Ok((found, false));
            }
            found.push(SearchEntry::construct(entry));
        }
        let result = stream.result();
        match result.rc {
            SUCCESS => Ok((found, true)),
            SIZE_LIMIT_EXCEEDED => Ok((found, false)),
            NO_SUCH_OBJECT => Err(Error::failed(format!("the directory has no place {base:?}"))),
            _ => Err(failed(LdapError::from(result))),
        }
    }

    /// The one entry of somebody.
    fn find(&mut self, name: &str) -> Result<Option<SearchEntry>> {
        let Ldap { base, user_attribute, .. } = &self.server.settings;
        let filter = self.server.settings.of_person(name);
        let (mut found, all) = self.search(base, &filter, &[user_attribute, MEMBER_OF], 2)?;
        if found.len() > 1 || !all {
            return Err(Error::refused(format!("several below {base:?} go by one name")));
        }
        Ok(found.pop().filter(|it| !it.dn.is_empty()))
    }

    fn groups(&mut self, found: &SearchEntry, name: &str) -> Result<Vec<String>> {
        let Some(base) = &self.server.settings.group_base else {
            return Ok(values(found, MEMBER_OF));
        };
        self.bind_searcher()?;
        let (groups, _) = self.search(base, &of_groups(&found.dn, name), &[COMMON_NAME], MOST_GROUPS)?;
        Ok(groups.iter().flat_map(|group| values(group, COMMON_NAME)).collect())
    }
}

/// What a server said, for people.
fn told(result: &LdapResult) -> String {
    shown(&format!("{} ({})", result.text, result.rc))
}

fn shown(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(SHOWN).collect()
}

/// The values of an attribute, however the server writes its name.
fn values(entry: &SearchEntry, attribute: &str) -> Vec<String> {
    let same = |(name, _): &(&String, &Vec<String>)| name.eq_ignore_ascii_case(attribute);
    entry.attrs.iter().find(same).map(|(_, values)| values.clone()).unwrap_or_default()
}

impl Directory for Server {
    fn test(&self) -> Result<String> {
        let mut talk = self.connect()?;
        let Ldap { server, base, user_attribute, group_base, .. } = &self.settings;
        let (people, _) = talk.search(base, &format!("({user_attribute}=*)"), &[user_attribute], 1)?;
        let Some(one) = people.first() else {
            return Err(Error::failed(format!("nobody below {base:?} has the attribute {user_attribute:?}")));
        };
        if let Some(base) = group_base {
            talk.search(base, &format!("({COMMON_NAME}=*)"), &[COMMON_NAME], 1)?;
        }
        Ok(format!("{server} answers, and knows people such as {}", shown(&one.dn)))
    }

    fn journey(&self) -> Result<Option<Journey>> {
        Ok(None)
    }

    fn vouch(&self, proof: &Proof) -> Result<Person> {
        let Proof::Password { user, password } = proof else {
            return Err(Error::refused("people of this directory give a password"));
        };
        let nobody = || Error::refused("there is no such user, or the password is wrong");
        // Without a password a server lets in whoever it is, as nobody (RFC 4513 5.1.2).
        if password.is_empty() || !is_readable(user) {
            return Err(nobody());
        }
        let mut talk = self.connect()?;
        let Some(found) = talk.find(user)? else {
            // A name that is not there takes as many round trips as one that is.
            talk.bind(&format!("cn=nobody by this name,{}", self.settings.base), password)?;
            return Err(nobody());
        };
        match talk.bind(&found.dn, password)? {
            it if it.rc == SUCCESS => {}
            it if it.rc == INVALID_CREDENTIALS => return Err(nobody()),
            it if [BUSY, UNAVAILABLE].contains(&it.rc) => return Err(self.failed(LdapError::from(it))),
            it => return Err(Error::refused(format!("the directory does not let in: {}", told(&it)))),
        }
        // As the directory writes it: upper and lower case are the same there.
        let names = values(&found, &self.settings.user_attribute);
        let given = names.iter().find(|name| name.to_lowercase() == user.to_lowercase());
        let name = given.or(names.first()).map_or(*user, String::as_str).to_owned();
        let groups = talk.groups(&found, &name)?;
        // What follows does not depend on a farewell.
        let _ = talk.connection.unbind();
        person(name, groups)
    }
}

#[cfg(test)]
#[path = "ldap_test.rs"]
mod tests;
