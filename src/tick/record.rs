//! Calls of an expression that change the tickerplant's state.
//!
//! The expression runs on a query thread, which cannot perform them. It continues with the expected results, and its calls reach the
//! event loop at its end, which performs them in one iteration. If that gives other results, or if variables of `.u` have changed that
//! the expression has read, it runs again and gets the recorded results and variables: subscription and `.u.i` are of one moment.

use super::core::schema::Tables;
use super::plant::functions::{self, Function};
use super::plant::variables::Variables;
use crate::protocol::read::name;
use crate::protocol::tables;
use crate::q::{QError, to_wire};
use crate::table::{Sym, Value, symbol};
use bytes::Bytes;
use proto::{Endian, Limits, View, Writer};
use std::sync::Arc;

/// Memory of a call beside its arguments and result, about.
const CALL_BYTES: usize = 128;

/// A call that only the event loop can perform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A function of `.u`, with its encoded arguments.
    Function { name: Sym, arguments: Vec<Vec<u8>> },
    /// `-30!(handle;failed;result)`, with the encoded message. `is_own`: the expression has deferred its own response before.
    Respond { handle: i32, is_own: bool, answer: Bytes },
}

impl Call {
    /// Encodes a call of a function.
    ///
    /// # Errors
    /// An argument that cannot be encoded.
    pub fn of(name: Sym, arguments: &[Value]) -> Result<Call, QError> {
        let mut objects = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let mut object = Vec::new();
            let mut writer = Writer::new(&mut object);
            to_wire(argument, &mut writer)?;
            writer.finish().map_err(|error| QError::with("type", error.to_string()))?;
            objects.push(object);
        }
        Ok(Call::Function { name, arguments: objects })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        CALL_BYTES.saturating_add(match self {
            Call::Function { arguments, .. } => arguments.iter().map(Vec::len).sum(),
            Call::Respond { answer, .. } => answer.len(),
        })
    }

    /// Returns the encoded result that it most likely has.
    pub fn expected(&self, known: &Tables) -> Vec<u8> {
        let mut object = Vec::new();
        let mut writer = Writer::new(&mut object);
        if !self.put_subscribed(known, &mut writer) {
            writer.null();
        }
        // What cannot be encoded is not what the call returns either.
        let _ = writer.finish();
        object
    }

    /// Writes the result of a subscription; false for other calls.
    fn put_subscribed(&self, known: &Tables, writer: &mut Writer<'_>) -> bool {
        let Call::Function { name: function, arguments } = self else { return false };
        let row = functions::find(symbol::text(*function));
        if !row.is_some_and(|row| matches!(row.function, Function::Sub | Function::Add | Function::SubInner)) {
            return false;
        }
        let first = arguments.first().and_then(|object| View::parse(object, Endian::Little, &Limits::default()).ok());
        match first.as_ref().and_then(|(view, _)| name(view)) {
            Some(b"") => {
                let mut all: Vec<_> = known.iter().collect();
                all.sort_by(|one, two| one.name.cmp(&two.name));
                tables::put_pairs(writer, all.iter().map(|spec| &spec.schema));
            }
            Some(table) => match known.find(table) {
                Some((_, spec)) => tables::put_pair(writer, &spec.schema),
                None => return false,
            },
            None => return false,
        }
        true
    }
}

/// A call to perform, and the result with which its expression has continued.
#[derive(Debug)]
pub struct Expected {
    pub call: Call,
    pub result: Vec<u8>,
}

/// A call that the event loop has performed.
#[derive(Debug)]
pub struct Performed {
    pub call: Call,
    /// Encoded.
    pub result: Result<Vec<u8>, QError>,
    /// The variables right after it, if the expression reads any after its calls.
    pub after: Option<Arc<Variables>>,
}
