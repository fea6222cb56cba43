//! The functions that clients can call, by name.

use super::Plant;
use super::arguments::handle_argument;
use crate::net::{ConnId, Links, Request};
use crate::q::error::QError;
use crate::tick::core::call::Call;
use proto::{Endian, View, Writer};

/// Who calls, and what is to be answered.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub conn: ConnId,
    /// The sync message that the call is; none for an async one, and for a call from inside an expression.
    pub request: Option<Request>,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The result was put.
    Put,
    /// The caller was answered, or there is nothing to answer.
    Answered,
    /// The result is `::`, to be answered when all updates so far are as durable as promised.
    PutWhenDurable,
}

/// Names and numbers of parameters, in the order in which `.u` shows them.
pub const FUNCTIONS: [(&str, u8); 18] = [
    (".u.sub", 2),
    (".u.add", 2),
    (".u.del", 2),
    (".u.upd", 2),
    (".u.end", 1),
    (".u.endofday", 1),
    (".u.schema", 2),
    (".z.ts", 1),
    (".u.asg.sub", 3),
    (".u.asg.roll", 2),
    (".u.asg.end", 1),
    (".u.asg.join", 1),
    (".u.asg.from", 1),
    (".u.asg.stream", 2),
    (".u.asg.rolling", 3),
    (".u.asg.proved", 4),
    (".u.asg.status", 1),
    (".u.asg.leaving", 1),
];

/// Whether there is a function of this name, and with how many parameters.
pub fn parameters(name: &[u8]) -> Option<u8> {
    FUNCTIONS.iter().find(|(own, _)| own.as_bytes() == name).map(|(_, parameters)| *parameters)
}

/// The lambda that the paper's RDB sends to be rolled; white space does not count.
pub fn is_roll_lambda(source: &[u8]) -> bool {
    let bare: Vec<u8> = source.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    bare == b"{.u.asg.roll[.z.w;x]}"
}

impl Plant {
    /// Calls a function of `.u`.
    ///
    /// # Errors
    /// The function's.
    pub fn call(
        &mut self,
        name: &[u8],
        args: &[View<'_>],
        caller: Caller,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<Called, QError> {
        let parameters = parameters(name).ok_or_else(|| QError::signal(name))?;
        if args.len() > usize::from(parameters) && name != b".u.upd" {
            return Err(QError::with("rank", format!("{} takes {parameters} arguments", name.escape_ascii())));
        }
        self.begin_turn(ctl);
        let conn = caller.conn;
        match name {
            b".u.sub" => {
                self.sub(args, conn, writer, ctl)?;
                return Ok(Called::Put);
            }
            b".u.add" => {
                self.add(args, conn, writer, ctl)?;
                return Ok(Called::Put);
            }
            b".u.upd" => {
                self.update_called(args, conn, ctl)?;
                writer.null();
                return Ok(Called::PutWhenDurable);
            }
            b".u.asg.join" => {
                self.asg_join(args, conn, caller.request, ctl)?;
                return Ok(Called::Answered);
            }
            b".u.del" => self.del(args, ctl)?,
            b".u.end" => {
                let date = args.first().filter(|date| date.type_code() == -proto::types::DATE);
                let date = date.and_then(View::atom::<i32>).filter(|date| *date != i32::MIN);
                let date = date.ok_or(QError::with("type", ".u.end takes a date that is not null"))?;
                self.send_end(date, ctl);
            }
            b".u.endofday" => self.end_of_day(ctl)?,
            b".u.schema" => {
                self.change_schema(args, conn, ctl)?;
                writer.null();
                return Ok(Called::PutWhenDurable);
            }
            b".u.asg.sub" => self.asg_sub(args, conn, ctl)?,
            b".u.asg.roll" => {
                let of = args.first().and_then(handle_argument).ok_or(QError::with("type", "a handle is an int"))?;
                let count = args.get(1).and_then(View::atom::<i64>).ok_or(QError::with("type", "a count is a long"))?;
                self.asg_roll(of, count, ctl)?;
            }
            b".z.ts" => self.flush_merged(ctl),
            // The queue's day ends with the tickerplant's own.
            b".u.asg.end" => {}
            b".u.asg.from" => self.asg_from(args, conn, ctl)?,
            b".u.asg.stream" => self.asg_stream(args, conn, ctl)?,
            b".u.asg.rolling" => self.asg_rolling(args, conn, ctl)?,
            b".u.asg.proved" => self.asg_proved(args, conn, ctl)?,
            b".u.asg.status" => self.asg_status(args, conn, ctl),
            b".u.asg.leaving" => self.asg_leaving(args, conn, ctl)?,
            _ => return Err(QError::signal(name)),
        }
        writer.null();
        Ok(Called::Put)
    }

    /// `.u.upd[t;x]` by way of an expression.
    fn update_called(&mut self, args: &[View<'_>], conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let named = match args {
            [table, data] => {
                table.text().map(|table| (table, data)).ok_or(QError::with("type", "a table's name is a symbol"))
            }
            _ => Err(QError::with("rank", ".u.upd takes the name of a table and its data")),
        };
        let (table, data) = named.inspect_err(|error| self.refuse_call(conn, error, args, ctl))?;
        let mut little = Vec::new();
        let data = match data.endian() {
            Endian::Little => data.raw(),
            Endian::Big => {
                data.append_little(&mut little).map_err(|error| QError::with("limit", error.to_string()))?;
                &little
            }
        };
        self.update(conn, &Call { table, data }, ctl).map_err(|refusal| QError::signal(refusal.signal()))
    }
}
