//! kdb+'s message compression, bit for bit.
//!
//! A compressed message is a header with compression 1 or 2, the uncompressed length of the whole message (4 or 8
//! bytes, header included), and a stream of groups. A group is a flag byte and up to eight items; bit k of the flags
//! says that item k is a match. A literal is one byte. A match is two: a hash and the number of bytes to copy beyond
//! the first two.
//!
//! Both sides keep a table from the hash of a pair of bytes (their exclusive or) to the place where such a pair was
//! last seen. A match copies from the table's place; the pairs inside its extra bytes are not entered. The compressor
//! enters the pair of a literal one item later, so it never refers to the byte just before.

mod expand;
mod shrink;

pub use expand::decompress;
pub use shrink::{compress, compress_always};

/// Slots of the table: one per hash. A slot holds a position in the message, 0 if empty (positions start after the
/// header).
type Slots = [usize; 256];

/// The hash of a pair.
fn slot(first: u8, second: u8) -> usize {
    usize::from(first ^ second)
}
