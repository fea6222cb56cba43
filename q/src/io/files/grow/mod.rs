//! Rows appended to a splayed table, and items to the file of a list, at a cost that does not depend on what is there.
//!
//! A crash leaves the rows before it readable. Every check and conversion comes before the first write. Then an append writes, for all columns
//! together, in this order: the number of rows to a file beside them, [`note`]; the count in each head, where it is not exact (kdb+ leaves
//! it as it was); attributes that the new items end; the new items, the first column's last; the new count in each head; and removes the file.
//! Where columns differ in length, and the file and all heads have the same count, an append was interrupted: a reader takes that number of rows,
//! and the next append cuts off what is after them. Without the file another program has written the columns: nothing of them is cut off. An
//! error, such as a full disk, cuts off what was written. A column that is a general list is read at each append, one that is compressed is
//! also written as a whole ([`replace`]).

mod column;
mod replace;

use self::column::{Beside, Column, Form, Held, More, write_at};
use self::replace::{clear, recount, replace, whole};
use super::exclusive::exclusive;
use super::unfinished::{note, noted_rows};
use super::{layout, refused};
use crate::runtime::context::Context;
use crate::runtime::error::QError;
use crate::verbs::fit;
use columns::table::{Items, Sym, Table, Value, Vector};
use std::fs::File;
use std::path::Path;

/// Rows of a splayed table, by the lengths of its columns and, after an interrupted append, by what it has left.
///
/// # Errors
/// `length` if the columns differ in length for another reason.
fn rows_of(folder: &Path, columns: &[Column]) -> Held<u64> {
    let shortest = columns.iter().map(|c| c.items).min().unwrap_or(0);
    if columns.iter().all(|c| c.items == shortest) {
        return Ok(shortest);
    }
    let noted = noted_rows(folder);
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
    note(folder).exists()
}

/// Number of whole rows of a splayed table that was read during an append, or after one that was interrupted. `names` are all columns of the table;
/// `read` has those that were read, with the number of items found in each. Never more than the shortest of these.
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
    let names = folder.join(".d");
    if !names.is_file() {
        return Ok(false);
    }
    let noted = note(folder);
    super::reach::check_change(context, &noted)?;
    // Another process may be appending: the lengths of the columns are read after it.
    let _lock = exclusive(context, &names, false)?;
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
        // A list holds symbols as they are.
        if matches!(new.items, Items::Sym(_)) && column.t != 0 {
            return Err(super::plain_symbols());
        }
        all.push(match column.more(context, there, new)? {
            Some(more) => more,
            None => whole(context, column, there, new)?,
        });
    }
    if noted.exists() {
        columns.iter().for_each(clear);
    }
    // One that an interrupted append left, and that a full disk may not let us write again, stays.
    let begun = match noted_rows(folder) {
        Some(rows) if rows == there => Ok(()),
        _ => std::fs::write(&noted, there.to_string()).map_err(|e| refused(&noted, &e)),
    };
    let done = begun.and_then(|()| write_all(context, &columns, there, &all));
    if done.is_err() && columns.iter().all(|c| has_items(context, c, there)) {
        // The table is as it was. The error reported is the first one.
        drop(std::fs::remove_file(&noted));
    }
    done?;
    std::fs::remove_file(&noted).map_err(|e| refused(&noted, &e))?;
    Ok(true)
}

/// Whether a column's file, read again, holds exactly `rows` items.
fn has_items(context: &mut Context, column: &Column, rows: u64) -> bool {
    Column::of_table(context, column.path.clone()).is_ok_and(|found| found.items == rows)
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
