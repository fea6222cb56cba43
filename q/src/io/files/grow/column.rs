//! The file of a column or list: how its items end, and what an append adds to it.

use super::super::fixed::{number, width};
use super::super::mapper::Mapper;
use super::super::{head, layout, reach, refused};
use crate::io::wire;
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::runtime::values::{domain_of_items, type_error};
use crate::verbs::attributes::set_attribute;
use columns::sys::shared::Shared;
use columns::table::symbol::text;
use columns::table::wire::attribute;
use columns::table::{Attr, Items, Sym, Value, Vector};
use proto::types;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

pub(super) type Held<T> = std::result::Result<T, QError>;

/// Type of a file of symbols.
const SYMBOLS: u8 = types::SYMBOL as u8;

/// Bytes read at a time in search of the end of a name.
const NAMES_READ_BYTES: u64 = 256;

/// How the items of a file end, and so how more are appended.
pub(super) enum Form {
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
pub(super) struct Column {
    pub(super) path: PathBuf,
    pub(super) form: Form,
    /// Bytes before the items.
    pub(super) head: u64,
    /// Bytes of the file.
    pub(super) size: u64,
    /// Items in the file, and the count in its head.
    pub(super) items: u64,
    pub(super) counted: u64,
    /// Type of the items, domain of an enumeration.
    pub(super) t: i8,
    pub(super) domain: Option<Sym>,
    pub(super) attr: Attr,
    /// The first item, if there is one.
    pub(super) first: Items,
    /// The head counts nothing: that of a log, in which no count is ever written.
    pub(super) is_log: bool,
}

/// Bytes that a column's file gets.
#[derive(Default)]
pub(super) struct More {
    pub(super) here: Vec<u8>,
    /// What the files beside it get, `#` and then `##`.
    pub(super) beside: Vec<Beside>,
    pub(super) count: u64,
    pub(super) keeps_attribute: bool,
    /// Replaces the files.
    pub(super) replaces: bool,
}

/// Bytes that a file beside a column gets, and where.
pub(super) struct Beside {
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
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
    while end > head::LIST_HEAD_BYTES as u64 {
        let start = end.saturating_sub(NAMES_READ_BYTES).max(head::LIST_HEAD_BYTES as u64);
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
    pub(super) fn open(context: &mut Context, path: PathBuf) -> Held<Column> {
        reach::check(context, &path)?;
        let mut file = File::open(&path).map_err(|e| refused(&path, &e))?;
        let size = file.metadata().map_err(|e| refused(&path, &e))?.len();
        let page = read_at(&mut file, &path, 0, head::PAGE_BYTES as u64 + 16)?;
        let at = |place: usize| page.get(place).copied().unwrap_or(0);
        let mut column = Column {
            path,
            form: Form::Whole(None),
            head: head::HEAD_BYTES as u64,
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
                column.head = head::LIST_HEAD_BYTES as u64;
                column.counted = number::<4>(&page, 4);
                (column.t, column.form) = (types::SYMBOL, Form::Symbols);
                column.size = whole_names(&mut file, &column.path, size)?;
            }
            [0xff, 0x01, 0, 0, ..] => {
                column.head = head::LIST_HEAD_BYTES as u64;
                column.counted = number::<4>(&page, 4);
                context.reserve(usize::try_from(size).unwrap_or(usize::MAX))?;
                let held = read_at(&mut file, &column.path, 0, u64::MAX)?;
                let ends = layout::ends(context, held.get(head::LIST_HEAD_BYTES..).unwrap_or_default())?;
                column.items = ends.len() as u64;
                (column.t, column.form) = (0, Form::List { ends });
            }
            [0xfe, 0x20, t @ (77..), ..] => {
                column.items = size.saturating_sub(column.head) / 8;
                (column.t, column.form) = (0, Form::Nested { t: layout::nested_type(*t)? });
            }
            [0xfe, 0x20, ..] if matches!(column.attr, Attr::None | Attr::Sorted) => column.fixed(size)?,
            [0xfd, 0x20, ..] if at(head::MAPPED_AT) == 0 => {
                column.head = head::PAGE_BYTES as u64;
                column.counted = number::<8>(&page, head::TAIL_AT + 8);
                column.t = at(head::TAIL_AT + 2) as i8;
                column.attr = attribute(at(head::TAIL_AT + 3));
                if matches!(column.attr, Attr::None | Attr::Sorted) {
                    column.fixed(size)?;
                }
                column.attr = head::marked(&page).unwrap_or(column.attr);
            }
            _ if head::is_mapped(&page) => {
                column.head = head::PAGE_BYTES as u64;
                column.counted = number::<8>(&page, head::TAIL_AT + 8);
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
    pub(super) fn of_table(context: &mut Context, path: PathBuf) -> Held<Column> {
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
        let plain = head::without_attribute(head);
        Ok(layout::decoded(context, &self.path, &[&plain[..], items].concat())?.to_items())
    }

    fn bytes_at(&self, at: u64, length: u64) -> Held<Vec<u8>> {
        let mut file = File::open(&self.path).map_err(|e| refused(&self.path, &e))?;
        read_at(&mut file, &self.path, at, length)
    }

    /// Whether the column keeps its attribute when the new items follow those in the file.
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
    pub(super) fn more(&self, context: &mut Context, rows: u64, new: &Vector) -> Held<Option<More>> {
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
                // Another form cannot take this one's place at once: its files would be read with each other's.
                let Some([ends, items]) = layout::nested_bytes(*t, &new.items, last)? else { return Err(type_error()) };
                more.here = ends;
                let at = last.saturating_mul(width(*t).ok_or_else(type_error)?);
                more.beside.push(Beside { at, bytes: items });
            }
            Form::Mapped => return mapped(context, &self.path, new, more),
            _ => return Ok(None),
        }
        Ok(Some(more))
    }

    /// Length of the file in bytes when it holds only its first `rows` items.
    pub(super) fn length(&self, rows: u64) -> u64 {
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

    pub(super) fn write_count(&self, file: &mut File, count: u64) -> std::io::Result<()> {
        match self.form {
            _ if self.is_log => Ok(()),
            Form::Whole(_) => Ok(()),
            Form::List { .. } | Form::Symbols => {
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                write_at(file, 4, &count.to_le_bytes())
            }
            _ if self.head == head::PAGE_BYTES as u64 => write_at(file, head::TAIL_AT as u64 + 8, &count.to_le_bytes()),
            _ => write_at(file, 8, &count.to_le_bytes()),
        }
    }

    pub(super) fn end_attribute(&self, file: &mut File) -> std::io::Result<()> {
        if self.head == head::PAGE_BYTES as u64 {
            write_at(file, head::MARK_AT as u64, &[0; head::MARK_BYTES])?;
            return write_at(file, head::TAIL_AT as u64 + 3, &[0]);
        }
        write_at(file, 3, &[0])
    }
}

pub(super) fn write_at(file: &mut File, at: u64, bytes: &[u8]) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}

/// Prepares new items of a mapped list: its objects and symbols are appended to those that are there, also to any that an interrupted append left.
fn mapped(context: &mut Context, path: &Path, new: &Vector, mut more: More) -> Held<Option<More>> {
    let objects = layout::beside(path);
    let symbols = layout::beside(&objects);
    let size = std::fs::metadata(&objects).map_err(|e| refused(&objects, &e))?.len();
    let start = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(head::PAGE_BYTES);
    let (mut at, mut known) = (0, Vec::new());
    if symbols.is_file() {
        let mut file = File::open(&symbols).map_err(|e| refused(&symbols, &e))?;
        let size = file.metadata().map_err(|e| refused(&symbols, &e))?.len();
        at = whole_names(&mut file, &symbols, size)?;
        known = layout::read(context, &symbols)?.as_symbols().ok_or_else(type_error)?.to_vec();
    }
    let mut mapper = Mapper::after(start, &known, false);
    let Some(references) = mapper.references(context, &items_of(new))? else { return Ok(None) };
    more.here = references;
    more.beside.push(Beside { at: size, bytes: mapper.objects });
    if !mapper.symbols.is_empty() {
        let mut bytes = layout::encoded(context, &Value::symbols(mapper.symbols))?;
        if at > 0 {
            bytes.drain(..bytes.len().min(head::LIST_HEAD_BYTES));
        }
        more.beside.push(Beside { at, bytes });
    }
    Ok(Some(more))
}

pub(super) fn items_of(new: &Vector) -> Shared<Value> {
    match &new.items {
        Items::List(items) => items.clone(),
        _ => Value::from(new.clone()).items().into(),
    }
}
