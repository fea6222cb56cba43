//! `.u.calendar[date]`, and the wake-up before a market opens.

use super::Plant;
use super::arguments::date_argument;
use super::calls::Called;
use crate::config::Wake;
use crate::net::Links;
use crate::q::QError;
use crate::queue::{Date, QueueEvent};
use crate::tick::clock;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proto::{View, Writer, types};

/// Most days before or after 2000.01.01 of which timestamps exist, with room for a zone's offset.
const MAX_DAYS: u32 = 106_700;

/// The wake-up before the market opens.
#[derive(Debug, Default)]
pub(super) struct MarketOpen {
    /// The day whose queues were woken.
    woken: Option<Date>,
}

/// Returns a moment as local time, in nanoseconds since 2000.01.01.
fn local_ns(at: Timestamp, zone: &TimeZone) -> i64 {
    let offset_ns = i64::from(zone.to_offset(at).seconds()).saturating_mul(1_000_000_000);
    clock::from_2000_ns(at).saturating_add(offset_ns)
}

impl Plant {
    /// Writes a date's entry of the calendar: `date`, `trading` and `half` boolean, `open`, `close` and `end` local timestamps (null if the market
    /// is closed), `zone` symbol, `next` date.
    ///
    /// # Errors
    /// `domain` without a calendar; `type` for what is no date.
    pub(super) fn put_calendar(&self, args: &[View<'_>], writer: &mut Writer<'_>) -> Result<Called, QError> {
        let Some(trading) = self.time.trading_days() else {
            let text = "no calendar: start the tickerplant with --calendar FILE; the day ends by --roll-time";
            return Err(QError::with("domain", text));
        };
        let is_today = args.first().is_none_or(|of| of.type_code() == types::UNARY);
        let date = match is_today {
            true => self.time.today(),
            false => {
                Date(date_argument(args).ok_or(QError::with("type", ".u.calendar takes a non-null date, or nothing"))?)
            }
        };
        if date.0.unsigned_abs() > MAX_DAYS {
            return Err(QError::with("domain", ".u.calendar: timestamps of that date do not exist"));
        }
        let day = clock::civil_date(date);
        let (session, is_trading) = (trading.session(day), trading.is_trading(day));
        let time = |at: Timestamp| if is_trading { local_ns(at, &trading.zone) } else { types::NULL_LONG };
        writer.dict_head();
        writer.symbols(["date", "trading", "half", "open", "close", "end", "zone", "next"]);
        writer.list_head(8);
        writer.atom_date(date.0);
        writer.atom_bool(is_trading);
        writer.atom_bool(is_trading && session.is_half);
        writer.atom_timestamp(time(session.open));
        writer.atom_timestamp(time(session.close));
        writer.atom_timestamp(time(session.end));
        writer.symbol(trading.zone.iana_name().unwrap_or_default().as_bytes());
        writer.atom_date(clock::day_number(trading.next_after(day)).0);
        Ok(Called::Put)
    }

    /// At a start: a day with updates has woken its queues before, and they may sleep again by now.
    pub(super) fn continue_market_day(&mut self) {
        if self.time.is_preparing() && self.log.tip() > 0 {
            self.market.woken = Some(self.time.date());
        }
    }

    /// Wakes the queues once a day, some time before the market opens (`--wake calendar`).
    pub(super) fn wake_for_market(&mut self, ctl: &mut dyn Links) {
        if self.queue.core().wakes_by() != Wake::Calendar || self.market.woken == Some(self.time.date()) {
            return;
        }
        if self.time.is_preparing() {
            self.market.woken = Some(self.time.date());
            tracing::info!(date = %self.time.date(), "the market is about to open: waking the queues");
            self.step_queue(QueueEvent::Wake, None, ctl);
        }
    }
}
