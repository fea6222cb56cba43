//! `.u.sub`, `.u.add` and `.u.del`.

use super::Plant;
use super::arguments::handle_argument;
use super::calls::malformed;
use super::connection::{compresses, handle};
use super::member::Member;
use super::permit::{no_subscription, own_handle, permitted_symbols};
use crate::config::Limit;
use crate::metrics;
use crate::net::{ConnId, Links};
use crate::protocol::read::name;
use crate::protocol::{requested, tables};
use crate::q::error::QError;
use crate::tick::core::refusal::is_blank;
use crate::tick::core::schema::Form;
use crate::tick::feed::FeedError;
use crate::tick::subscriptions::{RequestedSymbols, Subscriptions};
use proto::{View, Writer};

/// Counts a limit of the feed and converts it to q's error.
pub(super) fn over_limit(error: FeedError) -> QError {
    if let FeedError::TooManyLanes(_) = error {
        metrics::refused(Limit::lanes);
    }
    QError::with("limit", error.to_string())
}

/// kdb+tick signals the name of an unknown table; a blank name would show nothing, so it gets a text.
fn no_table(name: &[u8]) -> QError {
    match is_blank(name) {
        true => QError::with("type", "the name of the table is empty"),
        false => QError::signal(name),
    }
}

/// Returns the connection with a handle that a call names: its own, or as an operator any.
fn named_handle(function: &str, handle: &View<'_>, caller: ConnId, ctl: &dyn Links) -> Result<ConnId, QError> {
    let of = handle_argument(handle).ok_or(QError::with("type", "a handle must be an int"))?;
    own_handle(function, of, caller, ctl)?;
    ctl.by_handle(of).ok_or_else(|| QError::with("domain", format!("handle {of} is not open")))
}

impl Plant {
    /// `.u.sub[t;s]`: replaces the subscription of a table, or of all tables. Writes u.q's result to the response.
    ///
    /// # Errors
    /// An unknown table is signalled by its name.
    pub fn sub(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let (table, requested) = self.table_and_symbols(args)?;
        let chosen = self.subscribe(table, &requested, true, conn, ctl)?;
        match table {
            Some(table) => self.put_answer(table, writer),
            None => {
                let chosen = chosen.iter().filter_map(|(table, _)| self.schemas.tables().get(*table));
                let chosen: Vec<_> = chosen.collect();
                tables::put_pairs(writer, chosen.iter().map(|spec| &spec.schema));
            }
        }
        Ok(())
    }

    /// The paper's `.u.subInner[t;s;h]`: as [`Plant::sub`] for a handle, with the permissions of its user.
    ///
    /// # Errors
    /// As [`Plant::sub`]; `access` for another's handle, `domain` for one that is not open.
    pub fn sub_inner(
        &mut self,
        args: &[View<'_>],
        caller: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let [table, symbols, handle] = args else { return Err(QError::named("rank")) };
        let conn = named_handle(".u.subInner", handle, caller, ctl)?;
        self.sub(&[*table, *symbols], conn, writer, ctl)
    }

    /// `.u.add[t;s]`: adds to the subscription of a table. The paper's `.u.add[t;s;h]` does so for a handle.
    ///
    /// # Errors
    /// An unknown table is signalled by its name; `access` for another's handle, `domain` for one that is not open.
    pub fn add(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let (args, handle) = args.split_at_checked(2).unwrap_or((args, &[]));
        let conn = match handle {
            [handle] => named_handle(".u.add", handle, conn, ctl)?,
            _ => conn,
        };
        let (table, requested) = self.table_and_symbols(args)?;
        let table = table.ok_or(QError::with("type", ".u.add takes the name of a table"))?;
        self.subscribe(Some(table), &requested, false, conn, ctl)?;
        self.put_answer(table, writer);
        Ok(())
    }

    /// `.u.del[t;h]`: ends a handle's subscription to a table.
    ///
    /// # Errors
    /// An unknown table is signalled by its name; `access` for another's handle, or a node's.
    pub fn del(&mut self, args: &[View<'_>], caller: ConnId, ctl: &mut dyn Links) -> Result<(), QError> {
        let (table, _) = self.table_and_symbols(args.get(..1).unwrap_or_default())?;
        let of = args.get(1).and_then(handle_argument).ok_or(QError::with("type", "a handle must be an int"))?;
        own_handle(".u.del", of, caller, ctl)?;
        let Some(conn) = ctl.by_handle(of) else { return Ok(()) };
        self.settle(ctl);
        let chosen = table.map_or_else(|| self.schemas.sorted().to_vec(), |table| vec![table]);
        let chosen: Vec<_> = chosen.into_iter().map(|table| (table, RequestedSymbols::All)).collect();
        self.resubscribe(conn, &chosen, ctl, |subscriptions, table, _| subscriptions.remove(table, conn))
    }

    /// Adds to the subscription of a table, or of all tables, or replaces it. Returns the tables with the symbols that the caller may have.
    ///
    /// # Errors
    /// Those of [`Plant::permitted`], and a limit of the feed.
    fn subscribe(
        &mut self,
        table: Option<usize>,
        requested: &RequestedSymbols,
        replaces: bool,
        conn: ConnId,
        ctl: &mut dyn Links,
    ) -> Result<Vec<(usize, RequestedSymbols)>, QError> {
        let chosen = self.permitted(table, requested, conn, ctl)?;
        self.settle(ctl);
        self.resubscribe(conn, &chosen, ctl, |subscriptions, table, symbols| {
            if replaces {
                subscriptions.remove(table, conn);
            }
            subscriptions.add(table, conn, symbols.clone());
        })?;
        Ok(chosen)
    }

    /// Returns the tables and symbols of a request that the caller may have. A request for all tables gets those that are permitted.
    ///
    /// # Errors
    /// `access` for a table or symbol that is requested by name and not permitted, and if no table is.
    fn permitted(
        &self,
        table: Option<usize>,
        requested: &RequestedSymbols,
        conn: ConnId,
        ctl: &dyn Links,
    ) -> Result<Vec<(usize, RequestedSymbols)>, QError> {
        let grants = Plant::grants(conn, ctl);
        let all = table.is_none();
        let tables = table.map_or_else(|| self.schemas.sorted().to_vec(), |table| vec![table]);
        let mut chosen = Vec::with_capacity(tables.len());
        for table in tables {
            let name = self.schemas.tables().get(table).map(|spec| spec.name.as_slice()).unwrap_or_default();
            match permitted_symbols(&grants, name, requested) {
                Ok(Some(symbols)) => chosen.push((table, symbols)),
                Ok(None) if all => {}
                Ok(None) => return Err(no_subscription(name)),
                Err(refused) => return Err(refused),
            }
        }
        Ok(chosen)
    }

    /// Changes the subscription of some tables. If the feed rejects the change, `.u.w` stays unchanged.
    ///
    /// # Errors
    /// `access` for the handle of a node: updates that it does not get would still count as held by it.
    fn resubscribe(
        &mut self,
        conn: ConnId,
        tables: &[(usize, RequestedSymbols)],
        ctl: &dyn Links,
        change: impl Fn(&mut Subscriptions<ConnId>, usize, &RequestedSymbols),
    ) -> Result<(), QError> {
        if self.queue.member(handle(conn)).is_some_and(Member::is_node) {
            let why = format!("handle {} is a node's: its queue subscribes for it", conn.handle());
            return Err(QError::with("access", why));
        }
        let before: Vec<_> = tables.iter().map(|(table, _)| (*table, self.subscriptions.entry(*table, conn))).collect();
        tables.iter().for_each(|(table, symbols)| change(&mut self.subscriptions, *table, symbols));
        let subscribed = self.subscribed(conn, ctl);
        if subscribed.is_err() {
            before.into_iter().for_each(|(table, entry)| self.subscriptions.put_back(table, conn, entry));
        }
        subscribed
    }

    fn put_answer(&self, table: usize, writer: &mut Writer<'_>) {
        match self.schemas.tables().get(table) {
            Some(spec) => tables::put_pair(writer, &spec.schema),
            None => writer.null(),
        }
    }

    /// Updates the feed of a connection to its subscription in `.u.w`.
    fn subscribed(&mut self, conn: ConnId, ctl: &dyn Links) -> Result<(), QError> {
        let member = self.queue.member(handle(conn));
        let form = member.map_or(Form::Table, |member| member.form);
        // Subscribers of a queue get every update as its own message, so that they can count updates.
        let merged = self.merging.is_on() && member.is_none();
        let key = self.subscriptions.key(conn, form, merged, compresses(conn, ctl));
        self.feed.subscribe(conn, key).map_err(over_limit)
    }

    /// Returns the table named, or `None` for `` ` `` (all), and the symbols wanted.
    fn table_and_symbols(&self, args: &[View<'_>]) -> Result<(Option<usize>, RequestedSymbols), QError> {
        let named = args.first().and_then(name).ok_or(QError::with("type", "a table's name must be a symbol"))?;
        let table = match named {
            b"" => None,
            name => Some(self.schemas.tables().find(name).ok_or_else(|| no_table(name))?.0),
        };
        let requested = match args.get(1) {
            None => RequestedSymbols::All,
            Some(atom) if name(atom) == Some(b"") || atom.is_null() => RequestedSymbols::All,
            Some(list) => RequestedSymbols::List(requested(list).map_err(malformed)?),
        };
        Ok((table, requested))
    }
}
