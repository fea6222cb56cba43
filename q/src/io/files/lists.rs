//! Columns of lists and strings: their number of items, from the head of the file, and some of their items, without reading the others.

use super::growing::{Counts, REFERENCE_BYTES, references};
use super::stored_rows::StoredRows;
use super::{head, layout, mapped, reach, refused, zipped};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use columns::table::{Attr, Items, Sym, Value, Vector};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

type Held<T> = Result<T, QError>;

/// A file that may be compressed, of which parts are read.
struct Plain<'a> {
    path: &'a Path,
    file: File,
    is_zipped: bool,
    /// The first page and the size of the file, decompressed.
    first: Vec<u8>,
    size: u64,
}

impl Plain<'_> {
    fn open<'a>(context: &Context, path: &'a Path) -> Held<Option<Plain<'a>>> {
        reach::check(context, path)?;
        // To open a pipe would wait for its writer.
        if !path.is_file() {
            return Ok(None);
        }
        let lost = |e: std::io::Error| refused(path, &e);
        let mut file = File::open(path).map_err(lost)?;
        let size = file.metadata().map_err(lost)?.len();
        let mut first = Vec::with_capacity(head::PAGE_BYTES);
        file.by_ref().take(head::PAGE_BYTES as u64).read_to_end(&mut first).map_err(lost)?;
        Ok(Some(match zipped::head(context, path, (&mut file, &first), head::PAGE_BYTES)? {
            Some((size, first)) => Plain { path, file, is_zipped: true, first, size },
            None => Plain { path, file, is_zipped: false, first, size },
        }))
    }

    /// So many bytes from an offset on, or as many as there are.
    fn part(&mut self, context: &Context, from: u64, length: u64) -> Held<Vec<u8>> {
        if self.is_zipped {
            return Ok(zipped::part(context, self.path, &mut self.file, (from, length))?.unwrap_or_default());
        }
        let lost = |e: std::io::Error| refused(self.path, &e);
        let length = length.min(self.size.saturating_sub(from));
        context.reserve(usize::try_from(length).unwrap_or(usize::MAX))?;
        let mut out = Vec::new();
        self.file.seek(SeekFrom::Start(from)).map_err(lost)?;
        self.file.by_ref().take(length).read_to_end(&mut out).map_err(lost)?;
        Ok(out)
    }
}

/// Number of items of a column by its head, if it counts them all; `None` if the column must be read.
///
/// # Errors
/// Those of reading.
pub(super) fn count(context: &Context, path: &Path) -> Held<Option<usize>> {
    if let Some(stored) = StoredRows::open(context, path).map_err(|error| head::located(path, error))? {
        return Ok(Some(stored.count()).filter(|_| stored.is_exact()));
    }
    let Some(file) = Plain::open(context, path)? else { return Ok(None) };
    let counts = references(&file.first, file.size).filter(|counts| counts.counted == counts.items);
    Ok(counts.and_then(|counts| usize::try_from(counts.items).ok()))
}

/// Rows of a mapped list whose items are read together.
const WINDOW_ROWS: u32 = 1 << 16;

/// Of so many items between the first and the last one wanted, each keeps its own bytes, not those of its neighbours.
const SPARSE: usize = 8;

/// Reads the items of some rows, which ascend, of a mapped list, and of the file beside it what is between items that are wanted; returns also the
/// number of items of the list. `None` for another form, and where the items are not in the order of the list.
///
/// # Errors
/// The limits', those of reading.
pub(super) fn rows(context: &mut Context, path: &Path, rows: &[u32]) -> Held<Option<(usize, Vector)>> {
    let Some(file) = Plain::open(context, path)?.filter(|file| head::is_mapped(&file.first)) else {
        return Ok(None);
    };
    let Some(counts) = references(&file.first, file.size) else { return Ok(None) };
    let end = rows.last().map_or(0, |last| u64::from(*last).saturating_add(1));
    if rows.is_empty() || end > counts.counted.min(counts.items) {
        return Ok(None);
    }
    let beside = layout::beside(path);
    let Some(objects) = Plain::open(context, &beside)? else { return Ok(None) };
    let mut files = Mapped { references: file, objects, counts, symbols: layout::symbols_of(context, &beside)? };
    let mut out = Vec::with_capacity(rows.len());
    let mut left = rows;
    while let Some(first) = left.first() {
        let end = first.saturating_add(WINDOW_ROWS);
        let (here, rest) = left.split_at(left.partition_point(|row| *row < end));
        match files.window(context, here) {
            Ok(Some(items)) => out.extend(items),
            Ok(None) => return Ok(None),
            // An object elsewhere, to which one of these refers.
            Err(error) if *error.name == *b"badtail" => return Ok(None),
            Err(error) => return Err(error),
        }
        left = rest;
    }
    let found = usize::try_from(counts.items).unwrap_or(usize::MAX);
    Ok(Some((found, Vector { attr: Attr::Mapped(mapped::LIST), items: Items::List(out.into()) })))
}

/// The files of a mapped list.
struct Mapped<'a> {
    references: Plain<'a>,
    objects: Plain<'a>,
    counts: Counts,
    symbols: Vec<Sym>,
}

impl Mapped<'_> {
    /// Items of these rows, from one part of each file.
    fn window(&mut self, context: &mut Context, rows: &[u32]) -> Held<Option<Vec<Value>>> {
        let (Some(first), Some(last)) = (rows.first().copied(), rows.last().copied()) else { return Ok(None) };
        let at = (self.counts.head as u64).saturating_add(u64::from(first).saturating_mul(REFERENCE_BYTES));
        let count = last.saturating_sub(first) as usize + 1;
        // The reference after the last one says where its item ends.
        let length = (count as u64).saturating_add(1).saturating_mul(REFERENCE_BYTES);
        let bytes = self.references.part(context, at, length)?;
        let all = bytes.as_chunks::<8>().0;
        let mut wanted = Vec::with_capacity(rows.len().saturating_mul(8));
        let (mut low, mut high) = (u64::MAX, 0);
        for reference in rows.iter().filter_map(|row| all.get(row.saturating_sub(first) as usize)) {
            let offset = mapped::offset(*reference);
            (low, high) = (low.min(offset), high.max(offset));
            wanted.extend_from_slice(reference);
        }
        let is_last = u64::from(last).saturating_add(1) >= self.counts.counted;
        let to = match all.get(count).filter(|_| !is_last).map(|next| mapped::offset(*next)) {
            Some(next) if next <= high => return Ok(None),
            Some(next) => next,
            None => u64::MAX,
        };
        let from = (head::PAGE_BYTES as u64).saturating_add(low);
        let objects = self.objects.part(context, from, to.saturating_sub(low))?;
        let shares = rows.len() >= count / SPARSE;
        let heap = mapped::Heap::new(objects, std::mem::take(&mut self.symbols)).part_of_file(low, shares);
        let read = mapped::list(context, &heap, &wanted);
        self.symbols = heap.into_symbols();
        Ok(Some(read?.items()))
    }
}
