//! `.u.sub`, `.u.add` and `.u.del`.

use super::Plant;
use super::arguments::{handle_argument, name, wanted};
use super::queue::compresses;
use crate::config::Limit;
use crate::metrics;
use crate::net::{ConnId, Links};
use crate::q::error::QError;
use crate::tick::core::schema::Form;
use crate::tick::feed::FeedError;
use crate::tick::messages;
use crate::tick::subscriptions::{Subscriptions, Wanted};
use proto::{View, Writer};

/// A limit of the feed, counted and as q signals it.
pub(super) fn over_limit(error: FeedError) -> QError {
    if let FeedError::TooManyLanes(_) = error {
        metrics::refused(Limit::lanes);
    }
    QError::with("limit", error.to_string())
}

impl Plant {
    /// `.u.sub[t;s]`: replaces what the subscriber has of a table, or of all of them. Puts what u.q answers.
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
        let (table, wanted) = self.table_and_symbols(args)?;
        self.settle(ctl);
        let chosen = table.map_or_else(|| self.sorted.clone(), |table| vec![table]);
        self.resubscribe(conn, &chosen, ctl, |subscriptions, table| {
            subscriptions.remove(table, conn);
            subscriptions.add(table, conn, wanted.clone());
        })?;
        match table {
            Some(table) => self.put_answer(table, writer),
            None => messages::put_pairs(writer, &self.tables, &chosen),
        }
        Ok(())
    }

    /// `.u.add[t;s]`: adds to what the subscriber has of a table.
    ///
    /// # Errors
    /// An unknown table is signalled by its name.
    pub fn add(
        &mut self,
        args: &[View<'_>],
        conn: ConnId,
        writer: &mut Writer<'_>,
        ctl: &mut dyn Links,
    ) -> Result<(), QError> {
        let (table, wanted) = self.table_and_symbols(args)?;
        let table = table.ok_or(QError::with("type", ".u.add takes the name of a table"))?;
        self.settle(ctl);
        self.resubscribe(conn, &[table], ctl, |subscriptions, table| subscriptions.add(table, conn, wanted.clone()))?;
        self.put_answer(table, writer);
        Ok(())
    }

    /// `.u.del[t;h]`: ends a handle's subscription to a table.
    ///
    /// # Errors
    /// An unknown table is signalled by its name.
    pub fn del(&mut self, args: &[View<'_>], ctl: &mut dyn Links) -> Result<(), QError> {
        let (table, _) = self.table_and_symbols(args.get(..1).unwrap_or_default())?;
        let of = args.get(1).and_then(handle_argument).ok_or(QError::with("type", "a handle is an int"))?;
        let Some(conn) = ctl.by_handle(of) else { return Ok(()) };
        self.settle(ctl);
        let chosen = table.map_or_else(|| self.sorted.clone(), |table| vec![table]);
        self.resubscribe(conn, &chosen, ctl, |subscriptions, table| subscriptions.remove(table, conn))
    }

    /// Changes what a subscriber has of some tables. Where its feed cannot follow, `.u.w` stays as it was.
    fn resubscribe(
        &mut self,
        conn: ConnId,
        tables: &[usize],
        ctl: &dyn Links,
        change: impl Fn(&mut Subscriptions<ConnId>, usize),
    ) -> Result<(), QError> {
        let before: Vec<_> = tables.iter().map(|table| (*table, self.subscriptions.entry(*table, conn))).collect();
        tables.iter().for_each(|table| change(&mut self.subscriptions, *table));
        let subscribed = self.subscribed(conn, ctl);
        if subscribed.is_err() {
            before.into_iter().for_each(|(table, entry)| self.subscriptions.put_back(table, conn, entry));
        }
        subscribed
    }

    fn put_answer(&self, table: usize, writer: &mut Writer<'_>) {
        match self.tables.get(table) {
            Some(spec) => messages::put_pair(writer, spec),
            None => writer.null(),
        }
    }

    /// The feed of a connection follows what `.u.w` says of it.
    fn subscribed(&mut self, conn: ConnId, ctl: &dyn Links) -> Result<(), QError> {
        let form = self.members.get(&conn).map_or(Form::Table, |member| member.form);
        // Subscribers of a queue are told update by update, so that they can count them.
        let merged = self.merge.is_some() && !self.members.contains_key(&conn);
        let key = self.subscriptions.key(conn, form, merged, compresses(conn, ctl));
        self.feed.subscribe(conn, key).map_err(over_limit)
    }

    /// The table named, or all for `` ` ``, and the symbols wanted.
    fn table_and_symbols(&self, args: &[View<'_>]) -> Result<(Option<usize>, Wanted), QError> {
        let named = args.first().and_then(name).ok_or(QError::with("type", "a table's name is a symbol"))?;
        let table = match named {
            b"" => None,
            name => Some(self.tables.find(name).ok_or_else(|| QError::signal(name))?.0),
        };
        let wanted = match args.get(1) {
            None => Wanted::All,
            Some(atom) if name(atom) == Some(b"") || atom.is_null() => Wanted::All,
            Some(list) => Wanted::List(wanted(list)?),
        };
        Ok((table, wanted))
    }
}
