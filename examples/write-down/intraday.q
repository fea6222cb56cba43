/ Writes the day down while it lasts, and tells the tickerplant what nodes need to hold no longer.
/   q intraday.q HOST:PORT DIRECTORY ROWS      / elastick q or kdb+
/ Every ROWS rows of a table go to DIRECTORY/DATE/TABLE/, splayed. Start it before the day's first update.

h:hopen `$":",.z.x 0
db:hsym `$.z.x 1
most:"J"$.z.x 2
part:{[t] .Q.dd[db;(d;t;`)]}                    / DIRECTORY/DATE/TABLE/

/ An update is one message, whatever rows it has: i counts as .u.i does.
upd:{[t;x] t insert x; i+:1; if[most<=count value t; write[]]}

/ All tables, so that every update before i is on disk, and only then the tickerplant knows it.
write:{
  {part[x] upsert .Q.en[db] value x; x set 0#value x} each tables[];
  h(".u.asg.written";d;i) }

.u.end:{[date] write[]; i::0; d::date+1}

r:h"(.u.sub[`;`];.u.i;.u.d)"
{x[0] set x 1} each r 0
i:r 1
d:r 2
if[i>0; '"start before the day's first update, or replay its log"]
