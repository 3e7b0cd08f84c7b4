//! Identities of pre-shared keys in a ClientHello (RFC 8446 clause 4.2.11). s2n-tls needs the candidate keys before it
//! exposes the identities, so they are parsed here.

/// Extension `pre_shared_key` (clause 4.2).
const PRE_SHARED_KEY: u16 = 41;
/// Length of legacy_version and random.
const FIXED_BYTES: usize = 34;
/// Maximum number of identities that are looked up: a host has one or two for a subsystem.
pub(super) const MAX_IDENTITIES: usize = 8;

/// The first identities offered; `hello` is the message without its header. Empty if there are none or if the message
/// is malformed, which s2n-tls reports.
pub(super) fn offered_identities(hello: &[u8]) -> Vec<&[u8]> {
    extensions(hello).and_then(identities).unwrap_or_default()
}

fn extensions(hello: &[u8]) -> Option<&[u8]> {
    let mut rest = hello.get(FIXED_BYTES..)?;
    take::<1>(&mut rest)?; // legacy_session_id
    take::<2>(&mut rest)?; // cipher_suites
    take::<1>(&mut rest)?; // legacy_compression_methods
    take::<2>(&mut rest)
}

fn identities(mut extensions: &[u8]) -> Option<Vec<&[u8]>> {
    while !extensions.is_empty() {
        let kind = number::<2>(&mut extensions)?;
        let mut body = take::<2>(&mut extensions)?;
        if kind != usize::from(PRE_SHARED_KEY) {
            continue;
        }
        let mut list = take::<2>(&mut body)?;
        let mut found = Vec::new();
        while !list.is_empty() && found.len() < MAX_IDENTITIES {
            found.push(take::<2>(&mut list)?);
            number::<4>(&mut list)?; // obfuscated_ticket_age
        }
        return Some(found);
    }
    None
}

/// A number of `N` bytes.
fn number<const N: usize>(rest: &mut &[u8]) -> Option<usize> {
    let (bytes, after) = rest.split_at_checked(N)?;
    *rest = after;
    Some(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

/// A vector, preceded by its length as a number of `N` bytes.
fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number::<N>(rest)?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these extensions, each its type and body.
    fn hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut list = Vec::new();
        for (kind, body) in extensions {
            list.extend(kind.to_be_bytes());
            list.extend((body.len() as u16).to_be_bytes());
            list.extend(body);
        }
        let mut out = vec![3; FIXED_BYTES];
        out.extend([2, 9, 9, 0, 2, 0x13, 0x01, 1, 0]);
        out.extend((list.len() as u16).to_be_bytes());
        out.extend(list);
        out
    }

    /// The body of `pre_shared_key`, with binders.
    fn offer(identities: &[&[u8]]) -> Vec<u8> {
        let list: Vec<u8> = identities
            .iter()
            .flat_map(|it| [&(it.len() as u16).to_be_bytes(), *it, &[0, 0, 0, 0]].concat())
            .collect();
        [&(list.len() as u16).to_be_bytes(), list.as_slice(), &[0, 3, 2, 1, 1]].concat()
    }

    #[test]
    fn the_offered_identities_are_found_whatever_else_there_is() {
        let one = hello(&[(43, vec![2, 3, 4]), (10, vec![]), (PRE_SHARED_KEY, offer(&[b"one", b"two"]))]);
        assert_eq!(offered_identities(&one), [b"one", b"two"]);
        assert!(offered_identities(&hello(&[(43, vec![2, 3, 4])])).is_empty());
        let many: Vec<&[u8]> = vec![b"x"; 1000];
        assert_eq!(offered_identities(&hello(&[(PRE_SHARED_KEY, offer(&many))])).len(), MAX_IDENTITIES);
    }

    #[test]
    fn a_malformed_message_offers_nothing() {
        let whole = hello(&[(43, vec![2, 3, 4]), (PRE_SHARED_KEY, offer(&[b"one"]))]);
        for cut in 0..whole.len() {
            assert!(offered_identities(&whole[..cut]).is_empty(), "{cut}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7F, 0xFF] {
                let mut other = whole.clone();
                other[at] = value;
                assert!(offered_identities(&other).iter().all(|it| it.len() < whole.len()));
            }
        }
    }
}
