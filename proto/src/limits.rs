//! Limits on the input of the decoders.

/// Maximum nesting that is read or written under any limits, and that q creates, so that every value of q can be sent
/// and read again. The stack of every thread holds this many levels of recursion.
pub const DEEPEST: usize = 512;

/// Limits on one message or log record. Exceeding one is a `limit` error, not an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest message on the wire, header included, in bytes.
    pub max_message_bytes: u64,
    /// Largest message after decompression, header included, in bytes.
    pub max_decompressed_bytes: u64,
    /// Maximum nesting of lists, dictionaries, tables and functions; an atom has depth 1. Capped at [`DEEPEST`], because reading recurses.
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
