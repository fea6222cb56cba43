//! kdb+'s `-E`.

/// Which connections a port takes: kdb+'s `-E`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Plain ones only.
    #[default]
    Off,
    /// Both: the first byte of a connection shows which it is.
    Both,
    /// TLS only, except over Unix sockets.
    Only,
}
