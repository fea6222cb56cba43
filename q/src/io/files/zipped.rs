//! Compressed files: blocks of the plain file, compressed independently, and a trailer that describes them. A block that does not shrink is
//! stored as it is.
//!
//! The trailer is a version (32 bits), the algorithm and the level (a byte each, and two empty ones), the plain size, the end of the blocks and the
//! size of a block before compression (64 bits each); the length and the algorithm of each block (32 bits each, algorithm 0 for a block as it is);
//! and the number of blocks (64 bits).

use super::codecs::Algorithm;
use super::fixed::number;
use super::refused;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::type_error;
use crate::syntax::prims::name;
use columns::table::Value;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;

const MARK: &[u8] = b"kxzipped";
/// Mark of an encrypted file.
const ENCRYPTED: &[u8] = b"kxzippEd";
/// Bytes of the trailer before the entries of the blocks.
const TAIL_BYTES: usize = 32;
/// Version that kdb+ writes since its trailers have a level.
const VERSION: u32 = 3;
/// Bytes of a block's entry, and of the number of blocks.
const ENTRY_BYTES: usize = 8;
/// Logical block sizes, as powers of two.
const BLOCKS: std::ops::RangeInclusive<i64> = 12..=20;
/// Bit of an algorithm's number for encryption with it.
const ENCRYPTION: i64 = 16;

type Held<T> = std::result::Result<T, QError>;

/// Compression parameters of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    block_log2: u32,
    algorithm: Algorithm,
    level: i8,
}

impl Packing {
    /// Parses `(block size;algorithm;level)`; `None` for algorithm 0.
    pub fn of(parameters: &[Value]) -> Held<Option<Packing>> {
        let [block, algorithm, level] = parameters else { return Err(QError::named("length")) };
        let number = |v: &Value| v.as_long().ok_or_else(type_error);
        let (block, algorithm, level) = (number(block)?, number(algorithm)?, number(level)?);
        if algorithm == 0 {
            return Ok(None);
        }
        if (ENCRYPTION..2 * ENCRYPTION).contains(&algorithm) {
            return Err(QError::with("nyi", "encryption of files"));
        }
        let algorithm = u64::try_from(algorithm).ok().and_then(Algorithm::of);
        let algorithm = algorithm.ok_or_else(|| QError::with("domain", "compression algorithms are 0 to 5"))?;
        if !BLOCKS.contains(&block) {
            return Err(QError::with("domain", "the logical block size must be from 12 to 20 (a power of 2)"));
        }
        Ok(Some(Packing { block_log2: block as u32, algorithm, level: algorithm.level(level)? }))
    }

    /// Parameters of a compressed file; `None` if the file is not compressed or not there.
    pub fn found(path: &Path) -> Held<Option<Packing>> {
        let tail = if path.is_file() { Tail::at(path)? } else { None };
        let Some(Tail { algorithm, block_log2, level, .. }) = tail else { return Ok(None) };
        let algorithm = Algorithm::of(algorithm).ok_or_else(|| damaged(path))?;
        Ok(Some(Packing { block_log2, algorithm, level }))
    }

    /// Parameters in `.z.zd`, which apply to files without an extension, except `.d` (the column names of a splayed table).
    pub fn usual(context: &Context, path: &Path) -> Held<Option<Packing>> {
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
        let mut entries = Vec::new();
        for block in plain.chunks(block_bytes) {
            context.check()?;
            let small = self.algorithm.pack(block, self.level).filter(|small| small.len() < block.len());
            let held = small.as_deref().unwrap_or(block);
            context.reserve(held.len())?;
            out.extend_from_slice(held);
            let algorithm = if small.is_some() { self.algorithm as u64 } else { 0 };
            entries.push(held.len() as u64 | algorithm << 32);
        }
        let end = out.len() as u64;
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[self.algorithm as u8, self.level.cast_unsigned(), 0, 0]);
        for field in [plain.len() as u64, end, block_bytes as u64] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        out.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
        out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
        Ok(out)
    }
}

/// The trailer of a compressed file.
struct Tail {
    algorithm: u64,
    level: i8,
    plain_bytes: u64,
    block_log2: u32,
    /// Offset of the entries of the blocks, and their bytes.
    table: u64,
    entries_bytes: u64,
}

/// Error for a trailer that does not fit its file.
struct BadTail;

fn damaged(path: &Path) -> QError {
    QError::with("bad meta data in file", format!("{}: its trailer is damaged or missing", path.display()))
}

fn read_at<const N: usize>(file: &mut (impl Read + Seek), at: u64) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Tail {
    /// Reads a file's trailer, and no more of it; `None` if the file is not compressed.
    fn of(file: &mut (impl Read + Seek)) -> std::io::Result<Option<Result<Tail, BadTail>>> {
        // Files of the system (/proc, /sys) have no size that can be relied on, and some no end: these are looked at from the start only.
        let mut first = Vec::with_capacity(MARK.len());
        file.seek(SeekFrom::Start(0))?;
        file.take(MARK.len() as u64).read_to_end(&mut first)?;
        if first != MARK {
            return Ok(None);
        }
        let mark = MARK.len() as u64;
        let size = file.seek(SeekFrom::End(0))?;
        let Some(at) = size.checked_sub(ENTRY_BYTES as u64).filter(|at| *at >= mark) else {
            return Ok(Some(Err(BadTail)));
        };
        let blocks = u64::from_le_bytes(read_at(file, at)?);
        let table = blocks.checked_mul(ENTRY_BYTES as u64).and_then(|entries| at.checked_sub(entries));
        let start = table.and_then(|table| table.checked_sub(TAIL_BYTES as u64)).filter(|start| *start >= mark);
        let (Some(table), Some(start)) = (table, start) else { return Ok(Some(Err(BadTail))) };
        let tail: [u8; TAIL_BYTES] = read_at(file, start)?;
        let block_bytes = number::<8>(&tail, 24);
        let is_size = |log2: &u32| BLOCKS.contains(&i64::from(*log2)) && block_bytes == 1 << *log2;
        let Some(block_log2) = block_bytes.checked_ilog2().filter(is_size) else { return Ok(Some(Err(BadTail))) };
        let level = tail.get(5).copied().unwrap_or(0).cast_signed();
        Ok(Some(Ok(Tail {
            algorithm: number::<1>(&tail, 4),
            level,
            plain_bytes: number::<8>(&tail, 8),
            block_log2,
            table,
            entries_bytes: at - table,
        })))
    }

    /// The trailer of a file on disk; `None` if it is not compressed.
    fn at(path: &Path) -> Held<Option<Tail>> {
        let read = |path| match std::fs::metadata(path)?.is_file() {
            true => Tail::of(&mut std::fs::File::open(path)?),
            // The end of a device or pipe cannot be read.
            false => Ok(None),
        };
        read(path).map_err(|error| refused(path, &error))?.transpose().map_err(|BadTail| damaged(path))
    }
}

/// Decompresses the bytes of a file; returns others as they are.
pub(super) fn unpacked(context: &Context, path: &Path, bytes: Vec<u8>) -> Held<Vec<u8>> {
    if bytes.starts_with(ENCRYPTED) {
        return Err(QError::with("nyi", format!("{}: encrypted files", path.display())));
    }
    match part(context, path, &mut Cursor::new(&bytes), (0, u64::MAX))? {
        Some(plain) => Ok(plain),
        None => Ok(bytes),
    }
}

/// Decompresses the blocks of a file that hold the bytes from an offset on; returns these bytes, at most so many. `None` if the file is not compressed.
pub(super) fn part(
    context: &Context,
    path: &Path,
    file: &mut (impl Read + Seek),
    (from, length): (u64, u64),
) -> Held<Option<Vec<u8>>> {
    let bad = || damaged(path);
    let lost = |error: std::io::Error| refused(path, &error);
    let Some(tail) = Tail::of(file).map_err(lost)?.transpose().map_err(|BadTail| bad())? else { return Ok(None) };
    let block_bytes = 1u64 << tail.block_log2;
    let to = from.saturating_add(length).min(tail.plain_bytes);
    let entries_bytes = usize::try_from(tail.entries_bytes).map_err(|_| bad())?;
    context.reserve(entries_bytes)?;
    let mut entries = vec![0; entries_bytes];
    file.seek(SeekFrom::Start(tail.table)).and_then(|_| file.read_exact(&mut entries)).map_err(lost)?;
    if (entries.len() / ENTRY_BYTES) as u64 != tail.plain_bytes.div_ceil(block_bytes) {
        return Err(bad());
    }
    let (mut at, mut start, mut out) = (MARK.len() as u64, 0, Vec::new());
    for (index, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
        context.check()?;
        let length = number::<4>(entry, 0);
        let next = at.saturating_add(length);
        if next > tail.table {
            return Err(bad());
        }
        let whole = block_bytes.min(tail.plain_bytes - start);
        if start < to && start + whole > from {
            let failed =
                || QError::signal(format!("decompression error at block {index} in {}", path.display()).into_bytes());
            context.reserve(usize::try_from(whole.saturating_add(length)).unwrap_or(usize::MAX))?;
            let mut held = vec![0; usize::try_from(length).map_err(|_| bad())?];
            file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut held)).map_err(lost)?;
            let plain = match number::<4>(entry, 4) {
                0 => held,
                algorithm => {
                    let algorithm = Algorithm::of(algorithm).ok_or_else(failed)?;
                    algorithm.unpack(&held, usize::try_from(whole).unwrap_or(0)).ok_or_else(failed)?
                }
            };
            let wanted = from.saturating_sub(start)..whole.min(to - start);
            let (first, last) = (usize::try_from(wanted.start), usize::try_from(wanted.end));
            let plain = if plain.len() as u64 == whole { plain } else { return Err(failed()) };
            out.extend_from_slice(plain.get(first.unwrap_or(0)..last.unwrap_or(0)).unwrap_or_default());
        }
        (at, start) = (next, start.saturating_add(whole));
    }
    Ok(Some(out))
}

/// Decompressed size of a file that starts with `first`, and its first plain bytes, at most so many; `None` for a file that is not compressed.
pub(super) fn head(
    context: &Context,
    path: &Path,
    (file, first): (&mut std::fs::File, &[u8]),
    bytes: usize,
) -> Held<Option<(u64, Vec<u8>)>> {
    if first.starts_with(ENCRYPTED) {
        return Err(QError::with("nyi", format!("{}: encrypted files", path.display())));
    }
    if !first.starts_with(MARK) {
        return Ok(None);
    }
    let tail = Tail::of(file).map_err(|error| refused(path, &error))?;
    let Some(tail) = tail.transpose().map_err(|BadTail| damaged(path))? else { return Ok(None) };
    let plain = part(context, path, file, (0, bytes as u64))?.unwrap_or_default();
    Ok(Some((tail.plain_bytes, plain)))
}

/// Decompressed size; `None` for a file that is not compressed.
pub(super) fn plain_bytes(path: &Path) -> Held<Option<u64>> {
    Ok(Tail::at(path)?.map(|tail| tail.plain_bytes))
}

/// `-21!file`: the trailer as a dictionary, empty for a file that is not compressed.
pub(super) fn compression(path: &Path) -> Held<Value> {
    let Some(tail) = Tail::at(path)? else {
        return Ok(Value::dict(Value::symbols(Vec::new()), Value::empty()));
    };
    let packed = std::fs::metadata(path).map_err(|error| refused(path, &error))?.len();
    let int = |n: u64| Value::Int(i32::try_from(n).unwrap_or(0));
    let names = ["compressedLength", "uncompressedLength", "algorithm", "logicalBlockSize", "zipLevel"];
    let values = vec![
        Value::Long(packed.cast_signed()),
        Value::Long(tail.plain_bytes.cast_signed()),
        int(tail.algorithm),
        int(u64::from(tail.block_log2)),
        Value::Int(i32::from(tail.level)),
    ];
    Ok(Value::dict(Value::symbols(names.iter().map(|n| name(n)).collect()), Value::list(values)))
}
