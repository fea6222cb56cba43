//! Compressed files: blocks of the plain file, compressed independently, followed by their lengths. Algorithm 1 stores each block
//! as a compressed IPC message, 2 as a zlib stream. A block that does not shrink is stored uncompressed.

use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::Result;
use crate::runtime::values::type_error;
use crate::syntax::prims::name;
use columns::table::Value;
use flate2::Compression;
use std::io::{Read, Write};

const MARK: &[u8] = b"kxzipped";
/// Trailer between blocks and lengths: version, algorithm, plain size, end of the blocks, block size, level.
const TAIL_BYTES: usize = 32;
/// Logical block sizes, as powers of two.
const BLOCKS: std::ops::RangeInclusive<i64> = 12..=20;

type Held<T> = std::result::Result<T, QError>;

/// Compression parameters of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    block_log2: u32,
    algorithm: u32,
    level: u32,
}

impl Packing {
    /// Parses `(block size;algorithm;level)`; `None` for algorithm 0.
    pub fn of(parameters: &[Value]) -> Held<Option<Packing>> {
        let [block, algorithm, level] = parameters else { return Err(QError::named("length")) };
        let number = |v: &Value| v.as_long().ok_or_else(type_error);
        let (block, algorithm, level) = (number(block)?, number(algorithm)?, number(level)?);
        match algorithm {
            0 => return Ok(None),
            1 | 2 => {}
            _ => return Err(QError::with("nyi", "only compression algorithms 1 and 2 are supported")),
        }
        if !BLOCKS.contains(&block) {
            return Err(QError::with("domain", "the logical block size must be from 12 to 20 (a power of 2)"));
        }
        let level = u32::try_from(level).ok().filter(|level| *level <= 9).ok_or(QError::named("domain"))?;
        Ok(Some(Packing { block_log2: block as u32, algorithm: algorithm as u32, level }))
    }

    /// Parameters of a compressed file.
    pub fn found(bytes: &[u8]) -> Option<Packing> {
        let tail = tail(bytes).filter(|_| is_packed(bytes))?;
        let block_log2 = tail.block_bytes.checked_ilog2().filter(|log2| BLOCKS.contains(&i64::from(*log2)))?;
        let algorithm = u32::try_from(tail.algorithm).ok().filter(|a| matches!(a, 1 | 2))?;
        Some(Packing { block_log2, algorithm, level: u32::try_from(tail.level).ok()? })
    }

    /// Parameters in `.z.zd`, which apply to files without an extension, except `.d` (the column names of a splayed table).
    pub fn usual(context: &Context, path: &std::path::Path) -> Held<Option<Packing>> {
        match context.host.global(name(".z.zd")) {
            Some(set) if path.extension().is_none() && !path.to_string_lossy().ends_with("/.d") => {
                Packing::of(&set.items())
            }
            _ => Ok(None),
        }
    }

    /// Compresses the bytes of a plain file.
    pub fn pack(self, context: &mut Context, plain: &[u8]) -> Held<Vec<u8>> {
        let block_bytes = 1usize << self.block_log2;
        let mut out = MARK.to_vec();
        let mut lengths = Vec::new();
        for block in plain.chunks(block_bytes) {
            context.check()?;
            let small = match self.algorithm {
                1 => message(block),
                _ => deflated(block, self.level),
            };
            let small = small.filter(|s| s.len() < block.len());
            let kept = small.as_deref().unwrap_or(block);
            context.reserve(kept.len())?;
            out.extend_from_slice(kept);
            lengths.push(kept.len() as u64 | u64::from(small.is_some()) << 32);
        }
        let end = out.len() as u64;
        out.extend_from_slice(&2u32.to_le_bytes());
        out.extend_from_slice(&self.algorithm.to_le_bytes());
        out.extend_from_slice(&(plain.len() as u64).to_le_bytes());
        out.extend_from_slice(&end.to_le_bytes());
        out.extend_from_slice(&(block_bytes as u32).to_le_bytes());
        out.extend_from_slice(&self.level.to_le_bytes());
        out.extend(lengths.iter().flat_map(|l| l.to_le_bytes()));
        out.extend_from_slice(&(lengths.len() as u64).to_le_bytes());
        Ok(out)
    }
}

/// Returns a block as a compressed message; `None` if it does not shrink.
fn message(block: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(block.len().checked_add(proto::HEADER_BYTES)?).ok()?;
    let mut whole = vec![1, 0, 0, 0];
    whole.extend_from_slice(&length.to_le_bytes());
    whole.extend_from_slice(block);
    proto::compress::compress_always(&whole)
}

fn deflated(block: &[u8], level: u32) -> Option<Vec<u8>> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(block).ok()?;
    encoder.finish().ok()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let field = at.checked_add(N).and_then(|end| bytes.get(at..end)).unwrap_or_default();
    field.iter().rev().fold(0u64, |all, b| all << 8 | u64::from(*b))
}

/// Trailer of a compressed file.
struct Tail {
    algorithm: u64,
    plain_bytes: u64,
    block_bytes: u64,
    level: u64,
    /// Offset of the block lengths, and their number.
    table: usize,
    blocks: usize,
}

fn tail(bytes: &[u8]) -> Option<Tail> {
    let blocks = usize::try_from(number::<8>(bytes, bytes.len().checked_sub(8)?)).ok()?;
    let table = bytes.len().checked_sub(8)?.checked_sub(blocks.checked_mul(8)?)?;
    let at = table.checked_sub(TAIL_BYTES).filter(|at| *at >= MARK.len())?;
    Some(Tail {
        algorithm: number::<4>(bytes, at + 4),
        plain_bytes: number::<8>(bytes, at + 8),
        block_bytes: number::<4>(bytes, at + 24),
        level: number::<4>(bytes, at + 28),
        table,
        blocks,
    })
}

/// Decompresses a file.
pub(super) fn unpacked(context: &mut Context, bytes: &[u8]) -> Held<Vec<u8>> {
    let bad = || QError::with("bad meta data in file", "invalid trailer");
    let tail = tail(bytes).ok_or_else(bad)?;
    let (mut at, mut out) = (MARK.len(), Vec::new());
    for block in 0..tail.blocks {
        context.check()?;
        let length = usize::try_from(number::<4>(bytes, tail.table + block * 8)).map_err(|_| bad())?;
        let is_small = number::<4>(bytes, tail.table + block * 8 + 4) != 0;
        let end = at.checked_add(length).filter(|end| *end <= tail.table).ok_or_else(bad)?;
        let held = bytes.get(at..end).ok_or_else(bad)?;
        let failed = || QError::signal(format!("decompression error at block {block}").into_bytes());
        if !is_small {
            context.reserve(held.len())?;
            out.extend_from_slice(held);
        } else if tail.algorithm == 1 {
            let whole = proto::compress::decompress(held, &proto::Limits::default()).map_err(|_| failed())?;
            let content = whole.get(proto::HEADER_BYTES..).unwrap_or_default();
            context.reserve(content.len())?;
            out.extend_from_slice(content);
        } else if tail.algorithm == 2 {
            let most = tail.block_bytes.min(1 << BLOCKS.end());
            context.reserve(usize::try_from(most).unwrap_or(usize::MAX))?;
            let read = flate2::read::ZlibDecoder::new(held).take(most).read_to_end(&mut out);
            read.map_err(|_| failed())?;
        } else {
            return Err(QError::with("nyi", "compressed files: only algorithms 1 and 2 are supported"));
        }
        at = end;
    }
    if out.len() as u64 != tail.plain_bytes {
        return Err(bad());
    }
    Ok(out)
}

/// Whether a file is compressed.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(MARK)
}

/// Decompressed size; `None` for a file that is not compressed.
pub(super) fn plain_bytes(bytes: &[u8]) -> Option<u64> {
    tail(bytes).filter(|_| is_packed(bytes)).map(|tail| tail.plain_bytes)
}

/// `-21!file`: the trailer as a dictionary, empty for a file that is not compressed.
pub(super) fn compression(bytes: &[u8]) -> Value {
    let Some(tail) = tail(bytes).filter(|_| is_packed(bytes)) else {
        return Value::dict(Value::symbols(Vec::new()), Value::empty());
    };
    let int = |n: u64| Value::Int(i32::try_from(n).unwrap_or(0));
    let names = ["compressedLength", "uncompressedLength", "algorithm", "logicalBlockSize", "zipLevel"];
    let values = vec![
        Value::Long(i64::try_from(bytes.len()).unwrap_or(i64::MAX)),
        Value::Long(tail.plain_bytes.cast_signed()),
        int(tail.algorithm),
        int(u64::from(tail.block_bytes.max(1).ilog2())),
        int(tail.level),
    ];
    Value::dict(Value::symbols(names.iter().map(|n| name(n)).collect()), Value::list(values))
}

/// `.Q.gz`: decompresses gzip text or bytes, compresses `(level;x)`; `.Q.gz[::]` returns whether gzip is supported.
pub(crate) fn gz(context: &mut Context, x: Value) -> Result {
    let like = |bytes: Vec<u8>, of: &Value| match of.as_text() {
        Some(_) => Value::chars(bytes),
        None => columns::table::Items::Byte(bytes.into()).into(),
    };
    if let Value::Null = x {
        return Ok(Value::Bool(true));
    }
    if let (Some(level), 2, false) = (x.at(0).as_long(), x.count(), x.as_text().is_some()) {
        let level = u32::try_from(level).ok().filter(|l| *l <= 9).ok_or(QError::named("domain"))?;
        let of = x.at(1);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Compression::new(level));
        let written = encoder.write_all(crate::verbs::codec::bytes(&of)?);
        let bytes = written.and_then(|()| encoder.finish()).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        return Ok(like(bytes, &of));
    }
    let given = crate::verbs::codec::bytes(&x)?;
    let mut decoder = flate2::read::GzDecoder::new(given);
    let (mut out, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        context.check()?;
        let read = decoder.read(&mut part).map_err(|e| QError::signal(e.to_string().into_bytes()))?;
        if read == 0 {
            return Ok(like(out, &x));
        }
        context.reserve(out.len().saturating_add(read))?;
        out.extend_from_slice(part.get(..read).unwrap_or_default());
    }
}
