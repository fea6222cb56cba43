//! Rows appended to a splayed table, and items to the file of a list, at a cost that does not depend on what is there.
//!
//! A crash leaves the rows before it readable. Every check and conversion comes before the first write. Then an append writes, for all columns
//! together, in this order: the number of rows to a file beside them, [`APPENDING`]; the count in each head, where it is not exact (kdb+ leaves
//! it as it was); attributes that the new items end; the new items, the first column's last; the new count in each head; and removes the file.
//! Where columns differ in length, and the file and all heads have the same count, an append was interrupted: a reader takes that number of rows,
//! and the next append cuts off what is after them. Without the file another program has written the columns: nothing of them is cut off. An
//! error, such as a full disk, cuts off what was written. A column that is a general list or compressed is read at each append.

use super::fixed::{number, width};
use super::mapper::Mapper;
use super::{layout, refused, write};
use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::{domain_of_items, type_error};
use crate::verbs::attributes::set_attribute;
use crate::verbs::fit;
use columns::table::symbol::text;
use columns::table::wire::attribute;
use columns::table::{Attr, Items, Sym, Table, Value, Vector};
use proto::types;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// File in the directory of a splayed table while rows are appended: how many rows the table had before. kdb+ does not read it, because `.d` does
/// not name it.
const APPENDING: &str = ".appending";

/// Type of a file of symbols.
const SYMBOLS: u8 = types::SYMBOL as u8;

type Held<T> = std::result::Result<T, QError>;

/// Bytes read at a time in search of the end of a name.
const NAMES_READ_BYTES: u64 = 256;

/// How the items of a file end, and so how more are appended.
enum Form {
    /// Items of this many bytes after the head.
    Fixed { width: u64 },
    /// Serialised items; where each ends.
    List { ends: Vec<u64> },
    /// Symbols with a zero byte after each.
    Symbols,
    /// Vectors of this type, as kdb+ before 3.6 wrote them: their end offsets here, their items in the file beside.
    Nested { t: i8 },
    /// A mapped list: this file holds the offsets of its items in the file `NAME#`.
    Mapped,
    /// Written as a whole; what it holds, once it is read.
    Whole(Option<Vector>),
}

/// The file of a column or list.
struct Column {
    path: PathBuf,
    form: Form,
    /// Bytes before the items.
    head: u64,
    /// Bytes of the file.
    size: u64,
    /// Items in the file, and the count in its head.
    items: u64,
    counted: u64,
    /// Type of the items, domain of an enumeration.
    t: i8,
    domain: Option<Sym>,
    attr: Attr,
    /// The first item, if there is one.
    first: Items,
    /// The head counts nothing: that of a log, in which no count is ever written.
    is_log: bool,
}

/// Bytes that a column's file gets.
#[derive(Default)]
struct More {
    here: Vec<u8>,
    /// What the files beside it get, `#` and then `##`.
    beside: Vec<Beside>,
    count: u64,
    keeps_attribute: bool,
    /// Replaces the files.
    replaces: bool,
}

/// Bytes that a file beside a column gets, and where.
struct Beside {
    at: u64,
    bytes: Vec<u8>,
}

fn read_at(file: &mut File, path: &Path, at: u64, length: u64) -> Held<Vec<u8>> {
    let mut out = Vec::new();
    file.seek(SeekFrom::Start(at)).map_err(|e| refused(path, &e))?;
    file.take(length).read_to_end(&mut out).map_err(|e| refused(path, &e))?;
    Ok(out)
}

/// Bytes of a file of symbols up to the end of its last whole name.
fn whole_names(file: &mut File, path: &Path, size: u64) -> Held<u64> {
    let mut end = size;
    while end > layout::LIST_HEAD_BYTES as u64 {
        let start = end.saturating_sub(NAMES_READ_BYTES).max(layout::LIST_HEAD_BYTES as u64);
        let part = read_at(file, path, start, end - start)?;
        if let Some(last) = part.iter().rposition(|byte| *byte == 0) {
            return Ok(start + last as u64 + 1);
        }
        end = start;
    }
    Ok(end)
}

impl Column {
    /// Reads the head of a file. Only a general list is read to its end, because its items have no fixed width.
    fn open(context: &mut Context, path: PathBuf) -> Held<Column> {
        super::reach::check(context, &path)?;
        let mut file = File::open(&path).map_err(|e| refused(&path, &e))?;
        let size = file.metadata().map_err(|e| refused(&path, &e))?.len();
        let page = read_at(&mut file, &path, 0, layout::PAGE_BYTES as u64 + 16)?;
        let at = |place: usize| page.get(place).copied().unwrap_or(0);
        let mut column = Column {
            path,
            form: Form::Whole(None),
            head: layout::HEAD_BYTES as u64,
            size,
            items: 0,
            counted: number::<8>(&page, 8),
            t: at(2) as i8,
            domain: None,
            attr: attribute(at(3)),
            first: Items::List(Default::default()),
            is_log: false,
        };
        match &page[..] {
            [0xff, 0x01, SYMBOLS, 0, ..] => {
                column.head = layout::LIST_HEAD_BYTES as u64;
                column.counted = number::<4>(&page, 4);
                (column.t, column.form) = (types::SYMBOL, Form::Symbols);
                column.size = whole_names(&mut file, &column.path, size)?;
            }
            [0xff, 0x01, 0, 0, ..] => {
                column.head = layout::LIST_HEAD_BYTES as u64;
                column.counted = number::<4>(&page, 4);
                context.reserve(usize::try_from(size).unwrap_or(usize::MAX))?;
                let held = read_at(&mut file, &column.path, 0, u64::MAX)?;
                let ends = layout::ends(context, held.get(layout::LIST_HEAD_BYTES..).unwrap_or_default())?;
                column.items = ends.len() as u64;
                (column.t, column.form) = (0, Form::List { ends });
            }
            [0xfe, 0x20, t @ (77..), ..] => {
                column.items = size.saturating_sub(column.head) / 8;
                (column.t, column.form) = (0, Form::Nested { t: layout::nested_type(*t)? });
            }
            [0xfe, 0x20, ..] if matches!(column.attr, Attr::None | Attr::Sorted) => column.fixed(size)?,
            [0xfd, 0x20, ..] if at(layout::MAPPED_AT) == 0 => {
                column.head = layout::PAGE_BYTES as u64;
                column.counted = number::<8>(&page, layout::TAIL_AT + 8);
                column.t = at(layout::TAIL_AT + 2) as i8;
                column.attr = attribute(at(layout::TAIL_AT + 3));
                if matches!(column.attr, Attr::None | Attr::Sorted) {
                    column.fixed(size)?;
                }
                column.attr = layout::marked(&page).unwrap_or(column.attr);
            }
            _ if layout::is_mapped(&page) => {
                column.head = layout::PAGE_BYTES as u64;
                column.counted = number::<8>(&page, layout::TAIL_AT + 8);
                column.items = size.saturating_sub(column.head) / 8;
                (column.t, column.form) = (0, Form::Mapped);
            }
            _ => {}
        }
        if column.items == 0 {
            return Ok(column);
        }
        column.first = match &column.form {
            Form::Fixed { width } => {
                let item = page.get(column.head as usize..).unwrap_or_default();
                let item = item.get(..*width as usize).unwrap_or_default();
                let head = page.get(..column.head as usize).unwrap_or_default();
                column.read(context, head, item)?
            }
            _ => Items::List(vec![Value::empty()].into()),
        };
        column.domain = domain_of_items(&column.first);
        Ok(column)
    }

    /// As [`Column::open`], for a column that may have to be written as a whole.
    fn of_table(context: &mut Context, path: PathBuf) -> Held<Column> {
        let mut column = Column::open(context, path)?;
        if let Form::Whole(None) = column.form {
            let held = layout::read(context, &column.path)?.into_vector().ok_or_else(type_error)?;
            (column.items, column.first) = (held.len() as u64, held.items.cut(0, held.len().min(1)));
            (column.t, column.domain) = (held.items.type_number(), domain_of_items(&held.items));
            column.form = Form::Whole(Some(held));
        }
        Ok(column)
    }

    fn fixed(&mut self, size: u64) -> Held<()> {
        let width = if self.t == types::ENUM { 8 } else { width(self.t).ok_or_else(type_error)? };
        self.items = size.saturating_sub(self.head) / width;
        self.form = Form::Fixed { width };
        Ok(())
    }

    /// Items from their bytes in a file with this head.
    fn read(&self, context: &mut Context, head: &[u8], items: &[u8]) -> Held<Items> {
        let plain = layout::without_attribute(head);
        Ok(layout::decoded(context, &self.path, &[&plain[..], items].concat())?.to_items())
    }

    fn bytes_at(&self, at: u64, length: u64) -> Held<Vec<u8>> {
        let mut file = File::open(&self.path).map_err(|e| refused(&self.path, &e))?;
        read_at(&mut file, &self.path, at, length)
    }

    /// Whether the attribute holds for the items in the file and new ones.
    fn keeps_attribute(&self, context: &mut Context, rows: u64, new: &Items) -> Held<bool> {
        let Form::Fixed { width } = self.form else { return Ok(true) };
        match self.attr {
            Attr::None => Ok(true),
            Attr::Sorted => {
                let head = self.bytes_at(0, self.head)?;
                let last =
                    if rows == 0 { Vec::new() } else { self.bytes_at(self.length(rows).saturating_sub(width), width)? };
                let all = self.read(context, &head, &last)?.join(new);
                Ok(set_attribute(b"s", all.into()).is_ok())
            }
            // Of the attributes on disk only this one survives an append.
            _ => Ok(false),
        }
    }

    /// Prepares new items; `None` if the file must be written as a whole.
    fn more(&self, context: &mut Context, rows: u64, new: &Vector) -> Held<Option<More>> {
        let domain = domain_of_items(&new.items);
        let fits = new.items.type_number() == self.t || domain.is_some();
        let mut more = More { count: new.len() as u64, keeps_attribute: true, ..More::default() };
        match &self.form {
            Form::Fixed { .. } if fits && domain == self.domain => {
                more.here = layout::items_bytes(context, &new.clone().into())?;
                more.keeps_attribute = self.keeps_attribute(context, rows, &new.items)?;
            }
            Form::Symbols if fits && domain.is_none() => {
                let Items::Sym(names) = &new.items else { return Ok(None) };
                for name in names.iter() {
                    more.here.extend_from_slice(text(*name));
                    more.here.push(0);
                }
            }
            Form::List { .. } if rows > 0 || self.is_log => {
                for at in 0..new.len() {
                    context.tick()?;
                    let item = wire::message(&new.items.get(at).plain())?;
                    more.here.extend_from_slice(item.get(proto::HEADER_BYTES..).unwrap_or_default());
                }
            }
            Form::Nested { t } => {
                let last = if rows == 0 { Vec::new() } else { self.bytes_at(self.length(rows).saturating_sub(8), 8)? };
                let last = number::<8>(&last, 0);
                let Some([ends, items]) = layout::nested_bytes(*t, &new.items, last)? else { return Ok(None) };
                more.here = ends;
                let at = last.saturating_mul(width(*t).ok_or_else(type_error)?);
                more.beside.push(Beside { at, bytes: items });
            }
            Form::Mapped => return mapped(context, &self.path, new, more),
            _ => return Ok(None),
        }
        Ok(Some(more))
    }

    /// Bytes of the file that hold its first `rows` items.
    fn length(&self, rows: u64) -> u64 {
        let size = |width: u64| self.head.saturating_add(rows.saturating_mul(width));
        match &self.form {
            Form::Fixed { width } => size(*width),
            Form::Nested { .. } | Form::Mapped => size(8),
            Form::List { ends } => {
                let last = rows.checked_sub(1).and_then(|last| ends.get(usize::try_from(last).ok()?).copied());
                self.head.saturating_add(last.unwrap_or(0))
            }
            Form::Symbols | Form::Whole(_) => 0,
        }
    }

    fn write_count(&self, file: &mut File, count: u64) -> std::io::Result<()> {
        match self.form {
            _ if self.is_log => Ok(()),
            Form::Whole(_) => Ok(()),
            Form::List { .. } | Form::Symbols => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                write_at(file, 4, &count.to_le_bytes())
            }
            _ if self.head == layout::PAGE_BYTES as u64 => {
                write_at(file, layout::TAIL_AT as u64 + 8, &count.to_le_bytes())
            }
            _ => write_at(file, 8, &count.to_le_bytes()),
        }
    }

    fn end_attribute(&self, file: &mut File) -> std::io::Result<()> {
        if self.head == layout::PAGE_BYTES as u64 {
            write_at(file, layout::MARK_AT as u64, &[0; layout::MARK_BYTES])?;
            return write_at(file, layout::TAIL_AT as u64 + 3, &[0]);
        }
        write_at(file, 3, &[0])
    }
}

fn write_at(file: &mut File, at: u64, bytes: &[u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Rows of a splayed table, by the lengths of its columns and, after an interrupted append, by what it has left.
///
/// # Errors
/// `length` if the columns differ in length for another reason.
fn rows_of(folder: &Path, columns: &[Column]) -> Held<u64> {
    let shortest = columns.iter().map(|c| c.items).min().unwrap_or(0);
    if columns.iter().all(|c| c.items == shortest) {
        return Ok(shortest);
    }
    let noted = std::fs::read_to_string(folder.join(APPENDING)).ok().and_then(|rows| rows.trim().parse().ok());
    // A compressed file has no count outside of its blocks.
    let mut counted = columns.iter().filter(|c| !matches!(c.form, Form::Whole(_))).map(|c| c.counted);
    match noted {
        Some(rows) if rows <= shortest && counted.all(|c| c == rows) => Ok(rows),
        _ => {
            let lengths = columns.iter().map(|c| format!("{} {}", c.path.display(), c.items)).collect::<Vec<_>>();
            Err(QError::with("length", format!("the columns differ in length: {}", lengths.join(", "))))
        }
    }
}

/// Whether an append to a splayed table is under way, or was interrupted.
pub(super) fn is_appending(folder: &Path) -> bool {
    folder.join(APPENDING).exists()
}

/// Rows of a splayed table that was read during an append, or after one that was interrupted, with the number of items that each of the read
/// columns had: never more than all of them had. `names` are all of its columns.
///
/// # Errors
/// As [`rows_of`].
pub(super) fn complete_rows(context: &mut Context, folder: &Path, names: &[Sym], read: &[(Sym, usize)]) -> Held<usize> {
    let columns: Held<Vec<Column>> =
        names.iter().map(|n| Column::of_table(context, super::name_path(folder, *n))).collect();
    let columns = columns?;
    let shortest = read.iter().map(|(_, items)| *items).min().unwrap_or(0);
    let items_of = |name: &Sym| {
        let at = names.iter().position(|n| n == name)?;
        usize::try_from(columns.get(at)?.items).ok()
    };
    let is_growing = read.iter().any(|(name, items)| items_of(name) != Some(*items));
    match rows_of(folder, &columns) {
        Ok(rows) => Ok(usize::try_from(rows).unwrap_or(usize::MAX).min(shortest)),
        Err(_) if is_growing => Ok(shortest),
        Err(error) => Err(error),
    }
}

/// Appends rows to the splayed table in a directory; `false` if there is none.
///
/// # Errors
/// Those of the rows, `length` for columns that differ in length, the operating system's.
pub(super) fn append(context: &mut Context, folder: &Path, rows: &Value) -> Held<bool> {
    if !folder.join(".d").is_file() {
        return Ok(false);
    }
    let names = super::column_names(context, folder)?;
    let columns: Held<Vec<Column>> =
        names.iter().map(|n| Column::of_table(context, super::name_path(folder, *n))).collect();
    let columns = columns?;
    let there = rows_of(folder, &columns)?;
    let of = |c: &Column| if there == 0 { c.first.cut(0, 0) } else { c.first.clone() };
    let like = Table::new(names, columns.iter().map(|c| of(c).into()).collect());
    let new = fit::fitting(context, &Value::table(like), rows, true)?.rows;
    let mut all = Vec::with_capacity(columns.len());
    for (column, new) in columns.iter().zip(&new.columns) {
        if matches!(new.items, Items::Sym(_)) && !matches!(column.form, Form::List { .. } | Form::Mapped) {
            return Err(super::plain_symbols());
        }
        all.push(match column.more(context, there, new)? {
            Some(more) => more,
            None => whole(context, column, there, new)?,
        });
    }
    let noted = folder.join(APPENDING);
    super::reach::check_change(context, &noted)?;
    std::fs::write(&noted, there.to_string()).map_err(|e| refused(&noted, &e))?;
    let done = write_all(context, &columns, there, &all);
    if done.is_err() && columns.iter().all(|c| has_items(context, c, there)) {
        // The table is as it was. The error reported is the first one.
        drop(std::fs::remove_file(&noted));
    }
    done?;
    std::fs::remove_file(&noted).map_err(|e| refused(&noted, &e))?;
    Ok(true)
}

/// Whether the file of a column has so many items.
fn has_items(context: &mut Context, column: &Column, rows: u64) -> bool {
    Column::of_table(context, column.path.clone()).is_ok_and(|found| found.items == rows)
}

/// Bytes of a column that is written as a whole: one of another form, type or compression.
fn whole(context: &mut Context, column: &Column, rows: u64, new: &Vector) -> Held<More> {
    let held = match &column.form {
        Form::Whole(Some(held)) => held.clone(),
        _ => layout::read(context, &column.path)?.into_vector().ok_or_else(type_error)?,
    };
    let held = held.cut(0, usize::try_from(rows).unwrap_or(usize::MAX).min(held.len()));
    let all = Vector::from(if held.is_empty() { new.items.clone() } else { held.items.join(&new.items) });
    let packing = super::zipped::Packing::found(&column.path)?;
    let parts = layout::parts(context, &all.into(), false)?;
    let mut packed = |plain: Vec<u8>| match packing {
        Some(packing) => packing.pack(context, &plain),
        None => Ok(plain),
    };
    let here = packed(parts.own)?;
    let mut beside = Vec::new();
    for plain in parts.beside {
        beside.push(Beside { at: 0, bytes: packed(plain)? });
    }
    Ok(More { here, beside, count: new.len() as u64, replaces: true, ..More::default() })
}

/// Prepares new items of a mapped list: its objects and symbols are appended to those that are there, also to any that an interrupted append left.
fn mapped(context: &mut Context, path: &Path, new: &Vector, mut more: More) -> Held<Option<More>> {
    let objects = layout::beside(path);
    let symbols = layout::beside(&objects);
    let size = std::fs::metadata(&objects).map_err(|e| refused(&objects, &e))?.len();
    let start = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(layout::PAGE_BYTES);
    let (mut at, mut known) = (0, Vec::new());
    if symbols.is_file() {
        let mut file = File::open(&symbols).map_err(|e| refused(&symbols, &e))?;
        let size = file.metadata().map_err(|e| refused(&symbols, &e))?.len();
        at = whole_names(&mut file, &symbols, size)?;
        known = layout::read(context, &symbols)?.as_symbols().ok_or_else(type_error)?.to_vec();
    }
    let mut mapper = Mapper::after(start, &known, false);
    let items = match &new.items {
        Items::List(items) => items.clone(),
        _ => Value::from(new.clone()).items().into(),
    };
    let Some(references) = mapper.references(context, &items)? else { return Ok(None) };
    more.here = references;
    more.beside.push(Beside { at: size, bytes: mapper.objects });
    if !mapper.symbols.is_empty() {
        let mut bytes = layout::encoded(context, &Value::symbols(mapper.symbols))?;
        if at > 0 {
            bytes.drain(..bytes.len().min(layout::LIST_HEAD_BYTES));
        }
        more.beside.push(Beside { at, bytes });
    }
    Ok(Some(more))
}

/// Appends an atom, or the items of a list, to the file of a list; `false` if the file must be written as a whole.
pub(super) fn append_items(context: &mut Context, path: &Path, y: &Value) -> Held<bool> {
    if !path.is_file() || matches!(y, Value::Dict(_) | Value::Table(_) | Value::Func(_)) {
        return Ok(false);
    }
    let column = match Column::open(context, path.to_owned())? {
        Column { form: Form::Whole(_), .. } => return Ok(false),
        column => Column { is_log: column.counted == 0 && matches!(column.form, Form::List { .. }), ..column },
    };
    let new = Vector::from(y.to_items());
    let rows = column.items;
    let Some(more) = column.more(context, rows, &new)? else { return Ok(false) };
    write_all(context, std::slice::from_ref(&column), rows, std::slice::from_ref(&more))?;
    Ok(true)
}

fn write_all(context: &mut Context, columns: &[Column], rows: u64, all: &[More]) -> Held<()> {
    let mut open = Vec::with_capacity(columns.len());
    for column in columns {
        super::reach::check_change(context, &column.path)?;
        let files = match column.form {
            Form::Whole(_) => None,
            _ => {
                let file = std::fs::OpenOptions::new().read(true).write(true).open(&column.path);
                Some(file.map_err(|e| refused(&column.path, &e))?)
            }
        };
        open.push(files);
    }
    let done = written(context, columns, &mut open, rows, all);
    if done.is_err() {
        for (column, file) in columns.iter().zip(&mut open) {
            if let (Some(file), false) = (file, matches!(column.form, Form::Symbols)) {
                // The error reported is the first one.
                drop(file.set_len(column.length(rows)).and_then(|()| column.write_count(file, rows)));
            }
        }
    }
    done
}

fn written(context: &mut Context, columns: &[Column], open: &mut [Option<File>], rows: u64, all: &[More]) -> Held<()> {
    for (column, file) in columns.iter().zip(&mut *open) {
        if let Some(file) = file
            && column.counted != rows
            && !matches!(column.form, Form::Symbols)
        {
            column.write_count(file, rows).map_err(|e| refused(&column.path, &e))?;
        }
    }
    for ((column, file), more) in columns.iter().zip(&mut *open).zip(all).rev() {
        let failed = |e: std::io::Error| refused(&column.path, &e);
        if more.replaces {
            replace(context, column, rows, more)?;
            *file = None;
            continue;
        }
        let Some(file) = file else { continue };
        if !more.keeps_attribute {
            column.end_attribute(file).map_err(failed)?;
        }
        let mut path = column.path.clone();
        for Beside { at, bytes } in &more.beside {
            path = layout::beside(&path);
            super::reach::check_change(context, &path)?;
            let open = std::fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
            open.and_then(|mut file| write_at(&mut file, *at, bytes)).map_err(|e| refused(&path, &e))?;
        }
        let end = match column.form {
            Form::Symbols => {
                file.set_len(column.size).map_err(failed)?;
                column.size
            }
            _ => {
                let end = column.length(rows);
                if column.size > end {
                    file.set_len(end).map_err(failed)?;
                }
                end
            }
        };
        write_at(file, end, &more.here).map_err(failed)?;
    }
    for ((column, file), more) in columns.iter().zip(&mut *open).zip(all) {
        let before = if matches!(column.form, Form::Symbols) { column.counted } else { rows };
        let count = before.saturating_add(more.count);
        match file {
            Some(file) => column.write_count(file, count).map_err(|e| refused(&column.path, &e))?,
            None => recount(context, &column.path, count)?,
        }
    }
    Ok(())
}

fn recount(context: &mut Context, path: &Path, count: u64) -> Held<()> {
    let column = Column::open(context, path.to_owned())?;
    let file = std::fs::OpenOptions::new().write(true).open(path);
    file.and_then(|mut file| column.write_count(&mut file, count)).map_err(|e| refused(path, &e))
}

/// Start of the names of files that are to replace others of their folder. No column has such a name.
pub(super) const NEW: &str = ".appending-";

/// The file that is to replace this one.
fn new_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(NEW);
    name.push(path.file_name().unwrap_or_default());
    path.with_file_name(name)
}

/// Replaces a column's file, and those beside it. All are written before the first one takes its place, so that an error leaves the rows
/// as they were; those beside go first, as they only grow. The head has the count of the rows before the append.
fn replace(context: &mut Context, column: &Column, rows: u64, more: &More) -> Held<()> {
    let mut parts = vec![(column.path.clone(), &more.here)];
    for Beside { bytes, .. } in &more.beside {
        let last = parts.last().map_or(&column.path, |(path, _)| path);
        parts.push((layout::beside(last), bytes));
    }
    for (path, _) in &parts {
        super::reach::check_change(context, path)?;
    }
    let written = parts.iter().try_for_each(|(path, bytes)| write(context, &new_of(path), bytes));
    let written = written.and_then(|()| recount(context, &new_of(&column.path), rows));
    if written.is_err() {
        for (path, _) in &parts {
            // It may not have been created; the error reported is the first one.
            drop(std::fs::remove_file(new_of(path)));
        }
        return written;
    }
    for (path, _) in parts.iter().rev() {
        std::fs::rename(new_of(path), path).map_err(|e| refused(path, &e))?;
    }
    super::remove_beside(&column.path, more.beside.len())
}
