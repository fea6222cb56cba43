/ Trades and quotes of equities. The time column is the time of day; timestamps.q has timestamps instead.
/ Load another file of this folder with: elastick tick NAME DIR

trade:([]
  time:`timespan$();
  sym:`g#`symbol$();
  price:`float$();
  size:`long$();
  side:`char$();        / B or S
  ex:`symbol$())        / exchange

quote:([]
  time:`timespan$();
  sym:`g#`symbol$();
  bid:`float$();
  ask:`float$();
  bsize:`long$();
  asize:`long$();
  ex:`symbol$())
