//! Compression of the blocks of a compressed file. Each algorithm has its number in the file and in `-21!`.

use crate::runtime::error::QError;
use flate2::Compression;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use ruzstd::encoding::CompressionLevel;
use std::io::{Read, Write};

/// Highest level of lz4hc; higher ones mean the same.
const LZ4_LEVELS: i64 = 16;

/// Largest window that a zstd frame may ask a decoder for. kdb+ compresses at most 1 MiB, whatever the level.
const ZSTD_WINDOW_BYTES: u64 = 8 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// A compressed message, header included.
    Message = 1,
    /// A zlib stream.
    Gzip,
    Snappy,
    /// The block format of LZ4, with neither frame nor length.
    Lz4,
    /// One frame.
    Zstd,
}

use Algorithm::{Gzip, Lz4, Message, Snappy, Zstd};

impl Algorithm {
    pub fn of(number: u64) -> Option<Algorithm> {
        [Message, Gzip, Snappy, Lz4, Zstd].into_iter().find(|a| *a as u64 == number)
    }

    /// Checks a compression level. LZ4 and Zstandard have one level here: theirs is kept with the file only.
    ///
    /// # Errors
    /// `domain` if the algorithm has no such level.
    pub fn level(self, level: i64) -> Result<i8, QError> {
        let levels = match self {
            Message | Gzip | Snappy => 0..=9,
            Lz4 => 0..=i64::MAX,
            Zstd => -7..=22,
        };
        let named = levels.contains(&level).then(|| if self == Lz4 { level.min(LZ4_LEVELS) } else { level });
        let level = named.and_then(|level| i8::try_from(level).ok());
        level.ok_or_else(|| QError::with("domain", "the algorithm has no such compression level"))
    }

    /// Compresses a block; `None` if that fails.
    pub fn pack(self, block: &[u8], level: i8) -> Option<Vec<u8>> {
        match self {
            Message => message(block),
            Gzip => {
                let level = Compression::new(u32::try_from(level).ok()?);
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(block).ok()?;
                encoder.finish().ok()
            }
            Snappy => snap::raw::Encoder::new().compress_vec(block).ok(),
            Lz4 => Some(lz4_flex::block::compress(block)),
            Zstd => with_length(ruzstd::encoding::compress_to_vec(block, CompressionLevel::Fastest), block.len()),
        }
    }

    /// Decompresses a block of at most `most` bytes; `None` if it is damaged or longer.
    pub fn unpack(self, held: &[u8], most: usize) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        // One byte more shows that a stream goes on.
        let limit = (most as u64).saturating_add(1);
        match self {
            Message => {
                let header = proto::HEADER_BYTES;
                let max_decompressed_bytes = most.saturating_add(header) as u64;
                let limits = proto::Limits { max_decompressed_bytes, ..proto::Limits::default() };
                out = proto::compress::decompress(held, &limits).ok()?;
                out.drain(..header.min(out.len()));
            }
            Gzip => drop(flate2::read::ZlibDecoder::new(held).take(limit).read_to_end(&mut out).ok()?),
            Snappy => {
                snap::raw::decompress_len(held).ok().filter(|n| *n <= most)?;
                out = snap::raw::Decoder::new().decompress_vec(held).ok()?;
            }
            Lz4 => {
                out.resize(most, 0);
                let length = lz4_flex::block::decompress_into(held, &mut out).ok()?;
                out.truncate(length);
            }
            Zstd => {
                let mut decoder = FrameDecoder::new();
                decoder.set_max_window_size(ZSTD_WINDOW_BYTES);
                let stream = StreamingDecoder::new_with_decoder(held, decoder).ok()?;
                stream.take(limit).read_to_end(&mut out).ok()?;
            }
        }
        (out.len() <= most).then_some(out)
    }
}

fn message(block: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(block.len().checked_add(proto::HEADER_BYTES)?).ok()?;
    let mut whole = vec![1, 0, 0, 0];
    whole.extend_from_slice(&length.to_le_bytes());
    whole.extend_from_slice(block);
    proto::compress::compress_always(&whole)
}

/// Adds the length of its content to a frame, which readers may ask for before they decompress.
fn with_length(mut frame: Vec<u8>, length: usize) -> Option<Vec<u8>> {
    /// Where the frame says which fields its head has: after the magic number.
    const DESCRIPTOR_AT: usize = 4;
    /// The descriptor's bits for a length of 4 bytes, which stands after the window.
    const FOUR_BYTES: u8 = 0x80;
    let descriptor = frame.get_mut(DESCRIPTOR_AT).filter(|d| **d == 0)?;
    *descriptor = FOUR_BYTES;
    let at = DESCRIPTOR_AT + 2;
    let length = u32::try_from(length).ok()?;
    frame.splice(at..at, length.to_le_bytes());
    Some(frame)
}
