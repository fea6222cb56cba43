/ Joins the parts of a day, as save.q writes them, into a partition of a database on disk.
/   elastick q join.q PARTS HDB DATE TIP
/ PARTS/DATE/NODE is what one node has saved. The windows of the parts have to follow one another from update 0 without gap or
/ overlap, up to TIP, the number of updates in the day's log (`elastick log info`); else nothing is written. Without that number
/ nobody could tell that the last node has not saved. A partition that is there already is not written over.

fail:{-2"join.q: ",x;exit 1}
if[4>count .z.x;fail"usage: elastick q join.q PARTS HDB DATE TIP"]
hdb:hsym`$.z.x 1
date:"D"$.z.x 2
if[null date;fail .z.x[2]," is no date like 2026.11.21"]
tip:"J"$.z.x 3
if[null tip;fail .z.x[3]," is no number of updates"]
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
  / A part that was saved before columns were added to the table has nulls there.
  x:(uj/)x where 98h=type each x:part[t]each distinct windows`node;
  n:count x;
  if[`sym in cols x;x:`sym xasc x];
  x:.Q.en[hdb]x;
  if[`sym in cols x;x:@[x;`sym;`p#]];
  (` sv target,t,`)set x;
  -1 string[t],": ",string[n]," rows";}

saved:distinct raze{k where{`.d in key x}each{[x;y]` sv day,x,y}[x]each k:key` sv day,x}each nodes
write each saved;
.Q.chk hdb;
exit 0
