//! Rows of a column whose items have a fixed width, read without the rest of its file, and without a copy of its bytes unless it is compressed.

use super::fixed::{Body, Source, check_count, counted, is_simple, number, vector_of, width};
use super::unfinished::noted_rows;
use super::{enumeration, head, reach, refused, zipped};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::type_error;
use crate::runtime::{gather, limits};
use columns::table::wire::attribute;
use columns::table::{Attr, Items, Vector};
use proto::types;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

type Held<T> = Result<T, QError>;

/// Bytes read at a time: a whole number of items of every width.
const CHUNK_BYTES: usize = 1 << 18;

/// Times that a column is read again while it grows.
const MAX_READS: usize = 64;

/// The file of a simple vector or an enumeration: what its head says.
pub(super) struct StoredRows {
    file: File,
    path: PathBuf,
    is_zipped: bool,
    t: i8,
    /// Name of the domain of an enumeration.
    domain: Vec<u8>,
    attr: Attr,
    head_bytes: u64,
    width_bytes: u64,
    items: u64,
    /// The count in the head.
    counted: u64,
}

impl StoredRows {
    /// Reads the head of a file, which may be compressed; `None` for one in another form: a list, symbols, an enumeration of 32-bit indices.
    ///
    /// # Errors
    /// `access`, `badtail` if there are fewer items than the head counts, the operating system's.
    pub fn open(context: &Context, path: &Path) -> Held<Option<StoredRows>> {
        reach::check(context, path)?;
        // To open a pipe would wait for its writer.
        if !path.is_file() {
            return Ok(None);
        }
        let mut file = File::open(path).map_err(|e| refused(path, &e))?;
        let mut head = Vec::with_capacity(head::PAGE_BYTES);
        file.by_ref().take(head::PAGE_BYTES as u64).read_to_end(&mut head).map_err(|e| refused(path, &e))?;
        // After the head, which counts no items that are not written.
        let mut size = file.metadata().map_err(|e| refused(path, &e))?.len();
        let zipped = zipped::head(context, path, (&mut file, &head), head::PAGE_BYTES)?;
        let is_zipped = zipped.is_some();
        if let Some((plain_bytes, plain)) = zipped {
            (size, head) = (plain_bytes, plain);
        }
        let (head_bytes, t, attr, count_at) = match head[..] {
            [0xfe, 0x20, t, attr, ..] if head.len() >= head::HEAD_BYTES => (head::HEAD_BYTES, t, attr, 8),
            [0xfd, 0x20, ..] if head.len() == head::PAGE_BYTES && !head::is_mapped(&head) => {
                let at = |place: usize| head.get(place).copied().unwrap_or(0);
                (head::PAGE_BYTES, at(head::TAIL_AT + 2), at(head::TAIL_AT + 3), head::TAIL_AT + 8)
            }
            _ => return Ok(None),
        };
        let t = t.cast_signed();
        let is_enumeration = t == types::ENUM && head_bytes == head::PAGE_BYTES;
        let width_bytes = match t {
            _ if is_enumeration => 8,
            _ if is_simple(t) => width(t).ok_or_else(type_error)?,
            _ => return Ok(None),
        };
        let attr = attribute(attr);
        let count = number::<8>(&head, count_at);
        let most = counted(attr, count) as u64;
        let items = (size.saturating_sub(head_bytes as u64) / width_bytes).min(most);
        check_count(count, usize::try_from(items).unwrap_or(usize::MAX))?;
        let attr = if head_bytes == head::PAGE_BYTES { head::marked(&head).unwrap_or(attr) } else { attr };
        let domain = if is_enumeration { head::domain_of(&head).to_vec() } else { Vec::new() };
        Ok(Some(StoredRows {
            file,
            path: path.to_owned(),
            is_zipped,
            t,
            domain,
            attr,
            head_bytes: head_bytes as u64,
            width_bytes,
            items,
            counted: count,
        }))
    }

    pub fn count(&self) -> usize {
        usize::try_from(self.items).unwrap_or(usize::MAX)
    }

    pub fn attr(&self) -> Attr {
        self.attr
    }

    /// Whether the head counts all items, as it does except during an append, and after one by kdb+.
    pub fn is_exact(&self) -> bool {
        self.items == self.counted
    }

    /// Reads a whole column. Of an append under way no item is read: it writes the count in the head, then the items, then the new count. Only
    /// kdb+ leaves an old count there.
    ///
    /// # Errors
    /// As [`StoredRows::read`].
    pub fn read_all(mut self, context: &mut Context, path: &Path) -> Held<Vector> {
        let noted = |path: &Path| path.parent().and_then(noted_rows);
        for _ in 0..MAX_READS {
            if self.is_exact() {
                break;
            }
            if let Some(rows) = noted(path) {
                self.items = self.items.min(rows);
                break;
            }
            let (items, counted) = (self.items, self.counted);
            let all = 0..self.count();
            let read = self.read(context, all)?;
            match StoredRows::open(context, path)? {
                Some(now) if (now.counted, now.items) == (counted, items) && noted(path).is_none() => return Ok(read),
                Some(now) => self = now,
                None => return Ok(read),
            }
        }
        let all = 0..self.count();
        self.read(context, all)
    }

    /// Reads the items of these rows, which are in the file. All of them have the attribute of the column.
    ///
    /// # Errors
    /// The limits', `badtail` if the file has become shorter, the operating system's.
    pub fn read(mut self, context: &mut Context, rows: Range<usize>) -> Held<Vector> {
        let at = self.head_bytes.saturating_add((rows.start as u64).saturating_mul(self.width_bytes));
        let attr = match self.attr {
            attr if rows == (0..self.count()) => attr,
            _ => Attr::None,
        };
        let count = rows.len();
        context.reserve_items(count, usize::try_from(self.width_bytes).unwrap_or(usize::MAX))?;
        let items = if self.is_zipped {
            let length = (count as u64).saturating_mul(self.width_bytes);
            let bytes = zipped::part(context, &self.path, &mut self.file, (at, length))?.unwrap_or_default();
            check_count(count as u64, bytes.len() / usize::try_from(self.width_bytes).unwrap_or(1))?;
            self.items(context, &mut Body { bytes: &bytes, most: count })?
        } else {
            self.file.seek(SeekFrom::Start(at)).map_err(|e| QError::signal(e.to_string()))?;
            self.items(context, &mut Chunks { file: &self.file, count })?
        };
        Ok(Vector { attr, items })
    }

    /// Reads the items of these rows, given in ascending order and all in the file. Long stretches between two rows are not read.
    ///
    /// # Errors
    /// As [`StoredRows::read`].
    pub fn pick(self, context: &mut Context, rows: &[u32]) -> Held<Items> {
        let range = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => *first as usize..(*last as usize).saturating_add(1),
            _ => 0..0,
        };
        if range.len() == rows.len() {
            return Ok(self.read(context, range)?.items);
        }
        if self.is_zipped {
            let items = self.read(context, range.clone())?.items;
            let rows: Vec<u32> = rows.iter().map(|row| row.saturating_sub(range.start as u32)).collect();
            return gather::items(&context.allowance, &items, &rows);
        }
        context.reserve_items(rows.len(), usize::try_from(self.width_bytes).unwrap_or(usize::MAX))?;
        self.items(context, &mut Picked { file: &self.file, start: self.head_bytes, rows })
    }

    fn items(&self, context: &mut Context, source: &mut impl Source) -> Held<Items> {
        match self.t {
            types::ENUM => enumeration::enumeration(context, &self.domain, source, i64::from_le_bytes),
            t => vector_of(t, source),
        }
    }
}

/// Items of some rows, which ascend, where the items of a file begin at `start`.
struct Picked<'a> {
    file: &'a File,
    start: u64,
    rows: &'a [u32],
}

impl Source for Picked<'_> {
    fn items<T, const N: usize>(&mut self, of: impl Fn([u8; N]) -> T) -> Held<Vec<T>> {
        let mut out = Vec::with_capacity(self.rows.len());
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut left = self.rows;
        while let Some(first) = left.first() {
            limits::check()?;
            let end = first.saturating_add((CHUNK_BYTES / N.max(1)) as u32);
            let (here, rest) = left.split_at(left.partition_point(|row| *row < end));
            let count = here.last().map_or(0, |last| last.saturating_sub(*first) as usize).saturating_add(1);
            let part = chunk.get_mut(..count.saturating_mul(N)).unwrap_or_default();
            let at = self.start.saturating_add(u64::from(*first).saturating_mul(N as u64));
            self.file.seek(SeekFrom::Start(at)).map_err(|e| QError::signal(e.to_string()))?;
            self.file.read_exact(part).map_err(|e| QError::with("badtail", format!("the file became shorter: {e}")))?;
            let items = part.as_chunks::<N>().0;
            out.extend(
                here.iter().filter_map(|row| items.get(row.saturating_sub(*first) as usize)).map(|bytes| of(*bytes)),
            );
            left = rest;
        }
        Ok(out)
    }
}

/// The next items of a file.
struct Chunks<'a> {
    file: &'a File,
    count: usize,
}

impl Source for Chunks<'_> {
    fn items<T, const N: usize>(&mut self, of: impl Fn([u8; N]) -> T) -> Held<Vec<T>> {
        let mut out = Vec::with_capacity(self.count);
        let mut left = self.count.saturating_mul(N);
        let mut chunk = vec![0; CHUNK_BYTES.min(left)];
        while left > 0 {
            limits::check()?;
            let length = chunk.len().min(left);
            let part = chunk.get_mut(..length).unwrap_or_default();
            self.file.read_exact(part).map_err(|e| QError::with("badtail", format!("the file became shorter: {e}")))?;
            out.extend(part.as_chunks::<N>().0.iter().map(|bytes| of(*bytes)));
            left -= length;
        }
        Ok(out)
    }
}
