/ Trades and quotes whose first column is a moment, as TorQ's tickerplants have it. Rows are cleared by their date at the
/ end of the day, whatever zone it ends in.

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
