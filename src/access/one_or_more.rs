//! A value of the users file that may be a list.

use serde::Deserialize;

/// One text, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a text, or a list of texts")]
pub(super) enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub(super) fn list(self) -> Vec<String> {
        match self {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        }
    }
}
