/ Publishes the lines of a day's file, each exactly once, whatever is cut off or killed, also this script.
/   elastick q publish.q trades.csv 20261124 5010
/ A line is SYM,PRICE,SIZE. The number of an update is the date, then nine digits for its last line (from 1): 20261124000000100.
/ So numbers rise over days. Exits with 1 if going on could lose or hide rows.

ID:`feed1
BATCH:100
stop:{[reason] -2 reason;exit 1}
columns:("SFJ";",")0:lines:read0 hsym`$.z.x 0
beforeFirst:1000000000*"J"$.z.x 1
address:hsym`$":localhost:",.z.x 2
bad:where (2<>sum each lines=",")|any null columns
if[count bad;stop"line ",string[1+first bad],": expected SYM,PRICE,SIZE, not ",lines first bad]

/ After every connect: the line up to which the tickerplant has this file. sent: highest number sent, null before the first connect.
sent:0N
connect:{[]
  h::hopen address;
  last_:h(`.u.seq;ID);
  if[(not null sent)&last_>sent;
    stop"another process uses the id: the tickerplant has the number ",string[last_],", and this process sent ",string[sent]," at most"];
  done::$[null last_;0;0|last_-beforeFirst];
  if[done>count lines;
    stop"the tickerplant has the number ",string[last_],", which is after the end of this file: wrong date, a later day, or another file"];
  sent::last_|beforeFirst}
send:{[]
  rows:BATCH&count[lines]-done;
  sent::beforeFirst+done+rows;
  h(".u.upd";`trade;columns[;done+til rows];ID;sent);
  done+:rows}

/ Only after a lost connection and `io`: connect again, and continue after what .u.seq returns. Any other error does not pass;
/ `seq`: another process uses the id.
passes:{[error]any error like/:("io*";"hop*";"close*";"timeout*";"*ipe*";"*reset*")}
failed:{[error]
  if[not passes error;stop$[null done;"";"after line ",string[done],": "],error];
  -2"connecting again: ",error;
  if[not null h;@[hclose;h;::]];
  h::0N;
  system"sleep 1"}
h:done:0N
while[null[h]|done<count lines;@[{$[null h;connect[];send[]]};::;failed]];
-1"published ",string[done]," lines";
exit 0
