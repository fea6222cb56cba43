/ Trades and quotes, as kdb+tick's examples have them. The time is the time of the day; for tables whose first column is a
/ timestamp see the other files here. Load another with: elastick tick NAME DIR

trade:([]
  time:`timespan$();
  sym:`g#`symbol$();
  price:`float$();
  size:`int$();
  stop:`boolean$();     / a stop order
  cond:`char$();        / condition
  ex:`char$())          / exchange

quote:([]
  time:`timespan$();
  sym:`g#`symbol$();
  bid:`float$();
  ask:`float$();
  bsize:`int$();
  asize:`int$();
  mode:`char$();
  ex:`char$())
