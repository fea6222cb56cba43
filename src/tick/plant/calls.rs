//! Dispatch of the functions that clients can call, by name.

use super::Plant;
use super::arguments::{date_argument, handle_argument};
use super::functions::{self, Function};
use super::permit::own_handle;
use crate::net::{ConnId, Links, SyncRequest};
use crate::points::{self, Boundary};
use crate::protocol::{FromNode, Join, Malformed};
use crate::q::error::QError;
use crate::queue::{UpdateIndex, Window};
use crate::tick::core::call::Call;
use crate::tick::core::sequenced::Sequenced;
use proto::{Endian, View, Writer};

/// Connection that calls a function, and the sync message to respond to.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub conn: ConnId,
    /// Sync message of the call; `None` for an async message, and for a call from inside an expression.
    pub request: Option<SyncRequest>,
}

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// The result was written to the response.
    Put,
    /// The response was sent, or there is none to send.
    Answered,
    /// The result was written to the response, which waits until all updates so far are as durable as promised, and rejected ones of the
    /// connection in their file.
    PutWhenDurable,
}

/// Whether this is the lambda that the paper's RDB sends to roll; white space is ignored.
pub fn is_roll_lambda(source: &[u8]) -> bool {
    let bare: Vec<u8> = source.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    bare == b"{.u.asg.roll[.z.w;x]}"
}

fn queue_adds_itself() -> QError {
    let text = "the queue makes the longest-waiting subscriber live by itself: join with .u.asg.sub[tables;symbols;queue], or subscribe \
                outside the queue with .u.sub";
    QError::with("nyi", text)
}

fn no_date() -> QError {
    QError::with("type", ".u.end takes a non-null date")
}

impl Plant {
    /// Calls a function of `.u`.
    ///
    /// # Errors
    /// Those of the function.
    pub fn call(
        &mut self,
        name: &[u8],
        args: &[View<'_>],
        caller: Caller,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<Called, QError> {
        let row = functions::find(name).ok_or_else(|| QError::signal(name))?;
        let (parameters, conn) = (row.arity_most(), caller.conn);
        if args.len() > usize::from(parameters) && row.function != Function::Upd {
            return Err(QError::with("rank", format!("{} takes {parameters} arguments", row.name)));
        }
        self.permit(row, conn, ctl)?;
        points::message(Boundary::TickTakes, row.name);
        self.begin_iteration(ctl);
        match row.function {
            Function::Sub => return self.sub(args, conn, writer, ctl).map(|()| Called::Put),
            Function::Add => return self.add(args, conn, writer, ctl).map(|()| Called::Put),
            Function::SubInner => return self.sub_inner(args, conn, writer, ctl).map(|()| Called::Put),
            Function::QueueAdd => return Err(queue_adds_itself()),
            Function::Wake => return self.wake(writer, ctl),
            Function::Written => return self.written(args, conn, writer, ctl),
            Function::Upd => {
                match self.update_called(args, conn, ctl)? {
                    None => writer.null(),
                    Some(index) => writer.atom_long(index.map_or(proto::types::NULL_LONG, u64::cast_signed)),
                }
                return Ok(Called::PutWhenDurable);
            }
            Function::Seq => return self.last_sequence(args, conn, writer, ctl),
            Function::Confirm => return Ok(self.confirm(conn, writer, ctl)),
            Function::State => return Ok(self.put_state(writer, ctl)),
            Function::Calendar => return self.put_calendar(args, writer),
            Function::Owners => return Ok(self.put_owners(writer)),
            Function::FailOver => self.hand_over(args)?,
            Function::Evict => self.evict(args, conn, ctl)?,
            Function::Forget => self.forget_queue(args, conn, ctl)?,
            Function::Nonce => return self.asg_nonce(conn, writer, ctl).map(|()| Called::Put),
            Function::Prove => return self.asg_prove(args, conn, writer, ctl).map(|()| Called::Put),
            Function::Join => {
                self.asg_join(Join::decode(args).map_err(malformed)?, conn, caller.request, ctl)?;
                return Ok(Called::Answered);
            }
            Function::FollowOpen => return self.follow_open(args, caller, ctl).map(|()| Called::Answered),
            Function::FollowChecksums => return self.follow_sums(args, caller, ctl).map(|()| Called::Answered),
            Function::FollowCopy => return self.follow_next(args, caller, ctl).map(|()| Called::Answered),
            Function::Schema => {
                self.change_schema(args, conn, ctl)?;
                writer.null();
                return Ok(Called::PutWhenDurable);
            }
            Function::Retry => return self.retry(args, conn, writer, ctl).map(|()| Called::PutWhenDurable),
            Function::Discard => {
                self.discard(args, conn)?;
                writer.null();
                return Ok(Called::PutWhenDurable);
            }
            Function::Del => self.del(args, conn, ctl)?,
            Function::End => self.send_end(date_argument(args).ok_or_else(no_date)?, ctl),
            Function::EndOfDay => {
                // As in kdb+tick, any other argument is ignored.
                let force = args.first().and_then(View::text) == Some(b"force");
                self.end_of_day(force, ctl)?;
            }
            Function::Timer => self.flush_merged(ctl),
            Function::QueueSubscribe => self.asg_sub(args, conn, ctl)?,
            Function::QueueRoll => {
                let of = args.first().and_then(handle_argument);
                let of = of.ok_or(QError::with("type", "a handle must be an int"))?;
                let count = args.get(1).and_then(View::atom::<i64>);
                let count = count.ok_or(QError::with("type", "a count must be a long"))?;
                own_handle(row.name, of, conn, ctl)?;
                self.asg_roll(of, count, ctl)?;
            }
            Function::QueueEnd | Function::QueueClose => {}
            Function::From
            | Function::Stream
            | Function::Rolling
            | Function::Proved
            | Function::Status
            | Function::Leaving => {
                if let Some(message) = FromNode::decode(row.name, args).map_err(malformed)? {
                    self.node_message(message, conn, ctl)?;
                }
            }
        }
        writer.null();
        Ok(Called::Put)
    }

    fn put_state(&mut self, writer: &mut Writer<'_>, ctl: &mut dyn Links) -> Called {
        self.readable_state(ctl).put(writer);
        Called::Put
    }

    /// Handles a message of a joined node.
    fn node_message(&mut self, message: FromNode, conn: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        self.queue.heard(super::connection::handle(conn), self.time.steady_ns());
        match message {
            FromNode::From { next } => self.asg_from(UpdateIndex(next), conn, ctl),
            FromNode::Stream { first, last } => self.asg_stream(UpdateIndex(first), UpdateIndex(last), conn, ctl),
            FromNode::Rolling { next, proof, date } => self.asg_rolling(UpdateIndex(next), proof, date, conn, ctl),
            FromNode::Proved { first, last, proof, date } => {
                self.asg_proved(Window::new(UpdateIndex(first), UpdateIndex(last)), proof, date, conn, ctl)
            }
            FromNode::Status(status) => self.asg_status(status, conn, ctl),
            FromNode::Leaving(leaving) => self.asg_leaving(&leaving, conn, ctl),
        }
    }

    /// `.u.upd[t;x]` called from an expression, or with further arguments in a form that is not the usual one. Returns the index of the update if
    /// there are any: null for one without rows, or a duplicate of an earlier one than the last.
    fn update_called(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        ctl: &mut dyn Links,
    ) -> Result<Option<Option<u64>>, QError> {
        let (args, id) = args.split_at_checked(2).unwrap_or((args, &[]));
        let number = match id {
            [] => Ok(None),
            [id] if id.text() == Some(b"") => Ok(None),
            [id, seq] => {
                let seq = seq.atom::<i64>().or_else(|| seq.atom::<i32>().filter(|seq| *seq != i32::MIN).map(i64::from));
                let null = QError::with("type", "a publisher id must be a symbol, its number a long");
                id.text().zip(seq).map(Some).ok_or(null)
            }
            _ => Err(QError::with(
                "rank",
                ".u.upd takes the name of a table and its data, or also a publisher's id and a number",
            )),
        };
        let named = match (args, &number) {
            (_, Err(error)) => Err(error.clone()),
            ([table, data], _) => {
                table.text().map(|table| (table, data)).ok_or(QError::with("type", "a table's name must be a symbol"))
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
        let sequenced = Sequenced { call: Call { table, data }, number: number.unwrap_or_default() };
        let updated =
            self.update_sequenced(conn, &sequenced, ctl).map_err(|refusal| QError::signal(refusal.to_string()))?;
        Ok((!id.is_empty()).then_some(updated))
    }
}

/// Returns the error of a message that cannot be parsed.
pub(super) fn malformed(error: Malformed) -> QError {
    match error.term {
        "" => QError::signal(error.detail),
        term => QError::with(term, error.detail),
    }
}
