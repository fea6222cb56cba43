//! Required file system of the log's directory, so that the log is not written below an unmounted mount point.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Requirement on the file system of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequiredMount {
    /// No requirement.
    Any,
    /// A file system type, as the kernel names it; `nfs` matches every version.
    Kind(String),
    /// The file system mounted at this path.
    At(PathBuf),
}

impl FromStr for RequiredMount {
    type Err = String;

    fn from_str(text: &str) -> Result<RequiredMount, String> {
        let text = text.trim();
        let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        match text {
            "none" => Ok(RequiredMount::Any),
            _ if text.starts_with('/') => Ok(RequiredMount::At(PathBuf::from(text))),
            _ if !text.is_empty() && text.chars().all(is_word) => Ok(RequiredMount::Kind(text.to_string())),
            _ => Err(format!(
                "{text:?} is not a mount requirement; use none, a file system type such as nfs, or the path of a mount point"
            )),
        }
    }
}

impl fmt::Display for RequiredMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequiredMount::Any => f.write_str("none"),
            RequiredMount::Kind(kind) => f.write_str(kind),
            RequiredMount::At(point) => write!(f, "what is mounted at {}", point.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_a_mount_point_or_none_is_read() {
        assert_eq!("none".parse(), Ok(RequiredMount::Any));
        assert_eq!("nfs".parse(), Ok(RequiredMount::Kind("nfs".to_string())));
        assert_eq!("/efs".parse(), Ok(RequiredMount::At("/efs".into())));
    }

    #[test]
    fn a_relative_path_is_rejected() {
        for text in ["", "efs/log", "two words"] {
            assert!(text.parse::<RequiredMount>().is_err(), "{text:?}");
        }
    }
}
