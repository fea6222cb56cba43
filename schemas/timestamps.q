/ Trades and quotes whose first column is a timestamp, as in TorQ's tickerplants. The end of the day clears rows by their date,
/ whatever its time zone.

trade:([]
  time:`timestamp$();
  sym:`g#`symbol$();
  price:`float$();
  size:`int$();
  stop:`boolean$();     / a stop order
  cond:`char$();        / condition
  ex:`char$();          / exchange
  side:`symbol$())      / `buy or `sell

quote:([]
  time:`timestamp$();
  sym:`g#`symbol$();
  bid:`float$();
  ask:`float$();
  bsize:`long$();
  asize:`long$();
  mode:`char$();
  ex:`char$();
  src:`symbol$())
