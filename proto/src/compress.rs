//! kdb+'s message compression, byte for byte.
//!
//! A compressed message is a header with compression 1 or 2, the uncompressed length of the whole message (4 or 8 bytes, header
//! included), and a stream of groups. A group is a flag byte and up to eight items: if bit k of the flags is set, item k is a match,
//! else a literal. A literal is one byte. A match is two bytes: a hash, and the number of bytes to copy beyond the first two.
//!
//! Both sides keep a table from the hash of a pair of bytes (their exclusive or) to the last position of such a pair. A
//! match copies from that position; the pairs inside its extra bytes are not entered. The compressor enters the pair of
//! a literal one item later, so it never refers to the byte just before.

mod expand;
mod shrink;

pub use expand::{decompress, expanded_bytes};
pub use shrink::{compress, compress_always};

/// The table, with one slot per hash. A slot holds a position in the message; 0 means empty, as positions start after the header.
type Slots = [usize; 256];

/// Hash of a pair.
fn slot(first: u8, second: u8) -> usize {
    usize::from(first ^ second)
}
