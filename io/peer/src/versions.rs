//! The agreement of two ends on a version, the same for all protocols between controllers and between arrays.

/// The oldest and the newest version that an end speaks.
pub type Versions = [u16; 2];

/// A protocol with versions, and how an error names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The protocol, or what it does.
    pub name: &'static str,
    /// The other end.
    pub other: &'static str,
    /// This end.
    pub own: &'static str,
    /// Versions of this release.
    pub versions: Versions,
}

/// Both ends have no version of a protocol in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} speaks versions {} to {} of {}, {} {} to {}: update the older one",
    .protocol.other, .theirs[0], .theirs[1], .protocol.name, .protocol.own, .protocol.versions[0], .protocol.versions[1]
)]
pub struct NoCommonVersion {
    protocol: Protocol,
    theirs: Versions,
}

impl Protocol {
    /// The newest version that both ends speak.
    ///
    /// # Errors
    /// If there is none.
    pub fn agree(self, theirs: Versions) -> Result<u16, NoCommonVersion> {
        let ([oldest, newest], [own_oldest, own_newest]) = (theirs, self.versions);
        let version = newest.min(own_newest);
        if version < oldest.max(own_oldest) {
            return Err(NoCommonVersion { protocol: self, theirs });
        }
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        let it = Protocol { name: "a test", other: "the other", own: "this one", versions: [2, 4] };
        let agreed = |theirs| it.agree(theirs).ok();
        assert_eq!([[1, 2], [3, 3], [1, 9], [4, 9]].map(agreed), [Some(2), Some(3), Some(4), Some(4)]);
        assert_eq!([[0, 1], [5, 9], [3, 2], [9, 0]].map(agreed), [None; 4]);
        let error = it.agree([5, 9]).unwrap_err().to_string();
        assert_eq!(
            error,
            "the other speaks versions 5 to 9 of a test, this one 2 to 4: update the older one"
        );
    }
}
