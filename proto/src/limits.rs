//! What a peer or a file may make the codec do.

/// Deepest nesting that is read or written under any limits, and that q makes values of: what is made can be sent, and read
/// again. Every thread's stack can hold so many levels of a recursion.
pub const DEEPEST: usize = 512;

/// Bounds on one message or log record. Exceeding one is a `limit` error, not an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest message on the wire, header included, in bytes.
    pub max_message_bytes: u64,
    /// Largest message after decompression, header included, in bytes.
    pub max_decompressed_bytes: u64,
    /// Deepest nesting of lists, dictionaries, tables and functions; an atom has depth 1. Reading recurses, so more
    /// than [`DEEPEST`] counts as that.
    pub max_depth: usize,
}

impl Default for Limits {
    /// 1 GiB on the wire and decompressed, [`DEEPEST`] levels.
    fn default() -> Limits {
        Limits { max_message_bytes: 1 << 30, max_decompressed_bytes: 1 << 30, max_depth: DEEPEST }
    }
}

impl Limits {
    pub(crate) fn depth(&self) -> usize {
        self.max_depth.min(DEEPEST)
    }
}
