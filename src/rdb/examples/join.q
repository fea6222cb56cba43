/ Joins the parts of a day, as save.q writes them, into a partition of a database on disk.
/   elastick q join.q PARTS HDB DATE [TIP]
/ PARTS/DATE/NODE is what one node has saved. The windows of the parts have to follow one another from update 0 without gap or
/ overlap, up to TIP where it is given (.u.j of the tickerplant, or `elastick log info`); else nothing is written. A partition
/ that is there already is not written over.

fail:{-2"join.q: ",x;exit 1}
if[3>count .z.x;fail"usage: elastick q join.q PARTS HDB DATE [TIP]"]
hdb:hsym`$.z.x 1
date:"D"$.z.x 2
if[null date;fail .z.x[2]," is no date like 2026.11.21"]
day:` sv(hsym`$.z.x 0),`$string date
target:` sv hdb,`$string date
if[count key target;fail(1_string target)," is there already"]

nodes:key day
if[0=count nodes;fail"no part in ",1_string day]
whole:{`windows in key` sv day,x}each nodes
if[not all whole;fail"not saved to the end: ",", "sv string nodes where not whole]

windows:raze{update node:x from distinct select firstI,lastI from get` sv day,x,`windows}each nodes
windows:`firstI`lastI xasc windows
follows:(0=first windows`firstI)and(1_windows`firstI)~-1_windows`lastI
tip:$[3<count .z.x;"J"$.z.x 3;last windows`lastI]
if[not follows and tip=last windows`lastI;show windows;fail"the windows of the parts do not make up the day up to ",string tip]

/ A table of a part, its symbols no longer enumerated.
part:{[t;node]
  dir:` sv day,node;
  if[not t in key dir;:()];
  if[`sym in key dir;`sym set get` sv dir,`sym];
  x:select from get` sv dir,t,`;
  @[x;where 20h=type each flip x;value]}

/ One table at a time, in the order of the windows; within a symbol, rows stay in the order in which they came.
write:{[t]
  x:raze part[t]each distinct windows`node;
  n:count x;
  if[`sym in cols x;x:`sym xasc x];
  x:.Q.en[hdb]x;
  if[`sym in cols x;x:@[x;`sym;`p#]];
  (` sv target,t,`)set x;
  -1 string[t],": ",string[n]," rows";}

held:distinct raze{exec distinct tab from get[` sv day,x,`windows]where not null tab}each nodes
write each held
.Q.chk hdb
exit 0
