/ Data that TorQ's unit tests read, which its repository keeps as binary files: made anew below the folder of its tests.
tests:hsym`$getenv`KDBTESTS
day:2020.10.06D20:44:52
syms:`AAPL`GOOG`IBM
trade:{[n]([]time:day+til n;sym:n#syms;price:n?100f;size:n?100i;stop:n#0b;cond:n?.Q.A;ex:n?.Q.A;side:n#`buy)}
quote:{[n]([]time:day+til n;sym:n#syms;bid:n?50f;ask:50+n?50f;bsize:n?100;asize:n?100;mode:n?.Q.A;ex:n?.Q.A;src:n#`DB)}
at:{[folder;name]` sv tests,folder,name}
/ a tickerplant log of (table;rows)
record:{[file;messages]
  file set();h:hopen file;
  {[h;t;rows]h enlist(`upd;t;value flip rows)}[h]./:messages;
  hclose h;file}
/ the logs of a segmented tickerplant, each (name;tables;messages), and the table that describes them
segments:{[folder;logs]
  files:{[folder;name;tables;messages]record[at[folder;name];messages]}[folder]./:logs;
  n:count logs;
  at[folder;`stpmeta]set([]seq:til[n]div 2;logname:files;start:n#day;end:n#day+0D01;tbls:logs[;1];msgcount:count each logs[;2];schema:n#enlist()!();additional:n#enlist()!());}
gzip:{system"gzip ",1_string x}

/ stp/tickerlog
ticker:{[name]`stp`tickerlog`logs,name}
old:{[folder;name]record[at[ticker folder;name];((`trade;trade 400);(`quote;quote 1965))]}
old[`oldlog;`testoldlog];
old[`oldlogdir]each`oldlog1`oldlog2;
gzip each old[`zipfile;`testoldlog],old[`zipdir]each`oldlog1`oldlog2;
periods:raze{[p](
  (`$"trade",p;enlist`trade;enlist(`trade;trade 10));
  (`$"quote",p;enlist`quote;enlist(`quote;quote 10)))}each("20201006204520";"20201006204524");
segments[ticker`stpnone;enlist(`stpnone_20201006204450;`trade`quote;((`trade;trade 10);(`quote;quote 10)))];
segments[ticker`stptabular;((`trade_20201006204548;enlist`trade;enlist(`trade;trade 20));(`quote_20201006204548;enlist`quote;enlist(`quote;quote 20)))];
{segments[ticker x;periods]}each`stptabperiod`zipdirstp;
gzip each .Q.dd[folder]each key folder:` sv tests,ticker`zipdirstp;
system"mkdir ",1_string` sv tests,ticker`nologs;

/ merge/tplogreplay: partitions on both sides of the limit
segments[`merge`tplogreplay`testlogs;(
  (`stp1_quote20220616122504;enlist`quote;enlist(`quote;quote 30000));
  (`stp1_trade20220616122504;enlist`trade;enlist(`trade;trade 60000)))];

/ stp/housekeeping
segments[`stp`housekeeping`logs`logs;periods];

/ dataaccess/queryorder: a table with the attribute p, whose times ascend too: the test gives them the attribute s
{[d](` sv at[`dataaccess`queryorder`hdb;`$string d],`quote`)set .Q.en[` sv tests,`dataaccess`queryorder`hdb]update`p#sym,asc time from`sym xasc quote 30}each 2015.01.07 2015.01.08 2021.01.04;

/ stp/stripe: what each of four processes subscribes to
{[n]
  filter:",\".ds.stripe[sym;",string[n],"]\",";
  (hsym`$getenv[`KDBTESTS],"/../config/rdbsub/rdbsub",string[1+n],".csv")0:("tabname,filters,columns";"trade",filter;"quote",filter)}each til 4;

/ dqe: checks of which one has not ended
at[`dqe;`dupchktab]set([]id:1 1 2 2 3 3;funct:6#`f;params:6#`;procs:6#`rdb`rdb`rdb`rdb`hdb`hdb;procschk:`rdb1`rdb1`rdb1`rdb1`hdb1`hdb1;
  starttime:6#day;endtime:6#0Np;result:6#0b;descp:6#enlist"testing";chkstatus:`failed`started`complete`failed`complete`complete;chkruntype:6#`manual);

/ pcap: packets as Linux's cooked capture has them, and rows for the table of quotes
packet:{[at;port;seq;flags;payload]
  ip:0x4500,(0x0 vs`short$52+count payload),0x000040004006,0x0000,"x"$192 168 0 1 192 168 0 2;
  tcp:(0x0 vs`short$port),(0x0 vs 443h),(0x0 vs`int$seq),0x00000000,0x80,flags,0x01000000,0x0000,0x0101080a,0x0000000100000002;
  frame:(16#0x00),ip,tcp,payload;
  raze[reverse each 0x0 vs/:(`int$at;0i;n;n:`int$count frame)],frame}
at[`pcap;`dummy.pcap]1:0xd4c3b2a1020004000000000000000000ffff000071000000,raze packet'[1600000000+til 3;3#5010;1 2 3;0x101818;(0x;0x0102;0x030405)];
at[`pcap;`dummypacketstable]set([]time:2020.09.13D12:26:40+0D00:00:01*til 3;sym:3#`;src:3#`$"192.168.0.1";dest:3#`$"192.168.0.2");
at[`pcap;`dummyquotetable]set`time`sym xcols quote 10;
exit 0
