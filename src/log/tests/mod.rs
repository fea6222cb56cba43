//! Behaviour of the log as a whole, one file per theme.

mod blocks;
mod damage;
mod durable;
mod faulty;
mod follow;
mod golden;
mod grow;
mod holes;
mod identity;
mod kinds;
mod model;
mod moments;
mod retention;
mod rolls;
mod seek;
mod shared;
mod side;
mod support;
mod watch;
mod writers;
