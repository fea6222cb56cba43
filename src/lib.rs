//! elastick: a kdb+-compatible tickerplant whose real-time database is an elastic queue of small servers.
