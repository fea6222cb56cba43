//! Rows of a column whose items have a fixed width, read without the rest of its file, and without a copy of its bytes.

use super::fixed::{Source, check_count, counted, is_simple, number, vector_of, width};
use super::unfinished::noted_rows;
use super::{enumeration, head, reach, refused};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::limits;
use crate::runtime::values::type_error;
use columns::table::wire::attribute;
use columns::table::{Attr, Vector};
use proto::types;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

type Held<T> = Result<T, QError>;

/// Bytes read at a time: a whole number of items of every width.
const CHUNK_BYTES: usize = 1 << 18;

/// Times that a column is read again while it grows.
const MAX_READS: usize = 64;

/// The file of a simple vector or an enumeration: what its head says.
pub(super) struct StoredRows {
    file: File,
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
    /// Reads the head of a file; `None` for one in another form: a list, symbols, a compressed file, an enumeration of 32-bit indices.
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
        let size = file.metadata().map_err(|e| refused(path, &e))?.len();
        let mut head = Vec::with_capacity(head::PAGE_BYTES);
        file.by_ref().take(head::PAGE_BYTES as u64).read_to_end(&mut head).map_err(|e| refused(path, &e))?;
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
        self.file.seek(SeekFrom::Start(at)).map_err(|e| QError::signal(e.to_string()))?;
        let attr = match self.attr {
            attr if rows == (0..self.count()) => attr,
            _ => Attr::None,
        };
        let count = rows.len();
        context.reserve_items(count, usize::try_from(self.width_bytes).unwrap_or(usize::MAX))?;
        let mut chunks = Chunks { file: &mut self.file, count };
        let items = match self.t {
            types::ENUM => enumeration::enumeration(context, &self.domain, &mut chunks, i64::from_le_bytes)?,
            t => vector_of(t, &mut chunks)?,
        };
        Ok(Vector { attr, items })
    }
}

/// The next items of a file.
struct Chunks<'a> {
    file: &'a mut File,
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
