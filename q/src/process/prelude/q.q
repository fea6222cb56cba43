/ Definitions of .Q and .j that are not primitives, and csv.
/ the comma, for 0:
csv:","
/ csv, as a member of .q
.q.csv:","
/ version of kdb+ that is followed
.Q.k:4f
/ release date of that version
.Q.K:2020.10.02
/ limit of the chunks of partitioned queries
.Q.M:0W
/ reserved words
.Q.res:`abs`acos`asin`atan`avg`bin`binr`cor`cos`cov`delete`dev`div`do`enlist`exec`exit`exp`getenv`if`in`insert`last`like`log`max`min`prd`select`setenv`sin`sqrt`ss`sum`tan`update`var`wavg`while`within`wsum`xexp
/ date some months later: .Q.addmonths[date;months]
.Q.addmonths:{[date;months](date-"d"$m)+"d"$months+m:"m"$date}
/ joins symbols with a dot: .Q.dd[x;y]
.Q.dd:{[x;y]` sv x,`$string y}
/ long as ten characters
.Q.x10:{[n]d:64 vs n;.Q.b6((10-count d)#0),d}
/ long of ten characters
.Q.j10:{[t]64 sv .Q.b6?t}
/ long as twelve capitals and digits
.Q.x12:{[n]d:36 vs n;.Q.nA((12-count d)#0),d}
/ long of twelve capitals and digits
.Q.j12:{[t]36 sv .Q.nA?t}
/ number with so many decimals, as text: .Q.f[decimals;x]
.Q.f:{[decimals;x]
  $[0h<=type x;.z.s[decimals]each x;.Q.fixed[decimals;x]]}
/ number with so many decimals, in a width: .Q.fmt[width;decimals;x]
.Q.fmt:{[width;decimals;x]
  if[0h<=type x;:.z.s[width;decimals]each x];
  t:.Q.f[decimals;x];
  $[width<count t;width#"*";neg[width]$t]}
/ applies f to a table without its keys, and restores them
.Q.ft:{[f;t]$[99h=type t;count[cols key t]!f 0!t;f t]}
/ applies f to the distinct items only
.Q.fu:{[f;x]$[0h>type x;f x;[u:distinct x;f[u]u?x]]}
/ applies f to parts of a list on the threads of -s
.Q.fc:{[f;x]$[(s>n:count x)|2>s:abs system"s";f x;raze f peach((n*til s)div s)cut x]}
/ adds the columns of u to t, as nulls
.Q.ff:{[t;u]
  new:cols[u]except cols t;
  $[count new;flip flip[t],new!{count[x]#enlist first 0#y}[t]each flip[0!u]new;t]}
/ defaults overridden by options, read as the type of each default; an option without default reads as a missing one: .Q.def[defaults;.Q.opt .z.x]
.Q.def:{[defaults;given]
  read:{[d;v]v:(type first d)$v;$[0>type d;first v;v]};
  defaults,(key[given]#defaults)read'given}
/ options of a command line as a dictionary: .Q.opt .z.x
.Q.opt:{[words]
  if[0=count words;:()!()];
  at:where any words like/:("-[a-zA-Z_.]*";"--*");
  if[0=count at;:()!()];
  groups:at _ words;
  (`$1_'first each groups)!1_'groups}
/ rows of a partitioned table by row number: .Q.ind[t;rows]; other tables are an error, which programs trap to index those in memory
.Q.ind:{[t;rows]
  if[not 1b~.Q.qp t;'`type];
  if[0=count rows;:0#?[t;enlist(=;.Q.pf;first .Q.pv);0b;()]];
  ends:0,sums .Q.cn t;
  / a date may have a partition in several segments: i starts from 0 in each, so it cannot select their rows
  firsts:.Q.pv?.Q.pv;
  at:group firsts ends bin rows;
  one:{[t;ends;rows;p;at]
    at:rows[at]-ends p;
    if[not .Q.u;:?[t;enlist(=;.Q.pf;.Q.pv p);0b;()]at];
    r:?[t;((=;.Q.pf;.Q.pv p);(within;`i;(min at;max at)));0b;()];
    r at-min at};
  (raze one[t;ends;rows]'[key at;value at])iasc raze value at}
/ value of a symbol; other values as they are
.Q.v:{[x]$[-11h=type x;value x;x]}
/ columns of a table as a dictionary; of a partitioned one those of the last partition, and the values of all partitions
.Q.V:{[t]
  t:.Q.v t;
  if[not 1b~.Q.qp t;:flip 0!t];
  @[flip?[t;enlist(=;.Q.pf;last .Q.pv);0b;()];.Q.pf;:;.Q.pv]}
/ returns free memory to the system; the bytes returned
.Q.gc:{-20!x}
/ enumerates a table's symbols over the file sym: .Q.en[dir;t]
.Q.en:{[dir;t].Q.ens[dir;t;`sym]}
/ as .Q.en, over another file: .Q.ens[dir;t;domain]
.Q.ens:{[dir;t;domain]
  file:$[dir~(::);`;` sv dir,domain];
  c:cols[t]where{$[type[x]in 0 77h;(0<count x)&all 11h=type each x;11h=type x]}each value flip 0!t;
  if[not count c;if[not null file;if[not()~key file;domain set get file]];:t];
  if[not null file;file?distinct raze{$[type[x]in 0 77h;raze x;x]}each(0!t)c];
  count[keys t]!@[0!t;c;{[d;x]$[type[x]in 0 77h;d?/:x;d?x]}[domain]]}
/ time and memory of an application: .Q.ts[f;args]
.Q.ts:{[f;args]
  t:.z.p;r:f . args;
  (0 0+("j"$.z.p-t)div 1000000;r)}
/ groups lines of a script into expressions: line numbers, and texts; lines of a comment block as comments, and none after a lone \
.Q.ld:{[lines]
  t:(),/:lines;r:rtrim each t;
  b:{[is;x]$[is;not x~enlist"\\";x~enlist"/"]}\[0b;r];c:b|prev b;
  t:@[t;where c;{"/",$[any(rtrim x)~/:enlist each"/\\";"";x]}];
  t:@[t;where t like"\t*";{" ",1_x}];
  i:til first(where not[c]&r~\:enlist"\\"),count t;
  i@:where not(0=i)&t[i]like"#!*";
  s:where not t[i]like"[ }]*";
  (1+i s;"\n"sv'(s _ t i))}
/ applies f to the lines of a named pipe, as they arrive, until its writers have closed it: .Q.fpn[f;file;n] reads at most n bytes at a time
.Q.fpn:{[f;file;n]
  h:hopen`$":fifo://",(":"=first p)_p:string file;
  g:{[f;t]f{$["\r"=last x;-1_x;x]}each"\n"vs t}[f];
  rest:"";size:0;
  while[count b:"c"$read1(h;n);
    size+:count b;
    rest,:b;
    if[not null end:last where rest="\n";t:end#rest;rest:(1+end)_rest;g t]];
  hclose h;
  if[count rest;g rest];
  size}
/ applies f to the lines of a file, chunk by chunk
.Q.fs:{[f;file].Q.fsn[f;file;131000]}
/ applies f to the lines of a pipe, chunk by chunk
.Q.fps:{[f;file].Q.fpn[f;file;131000]}
/ as .Q.fs, in chunks of n bytes: .Q.fsn[f;file;n]
.Q.fsn:{[f;file;n]
  size:hcount file;at:0;
  while[at<size;
    b:"c"$read1(file;at;n);
    end:$[size<=at+count b;count b;1+last where b="\n"];
    if[null end;'`length];
    t:end#b;
    f{$["\r"=last x;-1_x;x]}each"\n"vs $["\n"=last t;-1_t;t];
    at+:end];
  size}
/ path of a table in a partition: .Q.par[dir;part;name]
.Q.par:{[dir;part;name]
  list:` sv dir,`par.txt;
  if[()~key list;:` sv dir,(`$string part),name];
  lines:read0 list;
  at:lines("j"$part)mod count lines;
  ` sv(hsym`$at),(`$string part),name}
/ writes a global table as a partition, sorted and parted by a field: .Q.dpft[dir;part;field;name]
.Q.dpft:{[dir;part;field;name].Q.dpfts[dir;part;field;name;`sym]}
/ as .Q.dpft, unsorted: .Q.dpt[dir;part;name]
.Q.dpt:{[dir;part;name].Q.dpts[dir;part;name;`sym]}
/ as .Q.dpt, with the name of the enumeration's file
.Q.dpts:{[dir;part;name;domain]
  t:value name;
  if[99h=type t;'`type];
  if[not .Q.qm t;'`unmappable];
  (` sv .Q.par[dir;part;name],`)set .Q.ens[dir;t;domain];
  name}
/ whether a column is a vector or a list of vectors of one type; of a table, whether all are
.Q.qm:{[x]
  if[98h=type x;:all .z.s each value flip x];
  $[(not type[x]in 0 77h)|not count x;1b;(0h<>type first x)&1=count distinct type each x]}
/ as .Q.dpft, with the name of the enumeration's file
.Q.dpfts:{[dir;part;field;name;domain]
  t:value name;
  if[99h=type t;'`type];
  if[not field in cols t;'`type];
  if[not .Q.qm t;'`unmappable];
  / enumerates before it sorts, like kdb+: the domain is in the order of the rows
  t:field xcols field xasc .Q.ens[dir;t;domain];
  (` sv .Q.par[dir;part;name],`)set @[t;field;`p#];
  name}
/ writes all tables as a partition and tells a database to reload: .Q.hdpf[port;dir;part;field]
.Q.hdpf:{[port;dir;part;field]
  names:tables`.;
  .Q.dpft[dir;part;field]each names;
  @[`.;;0#]each names;
  h:@[hopen;port;0];
  if[h;h"\\l .";hclose h];}
/ loads fixed records of a file into a splayed partition: .Q.dsftg[(dir;part;name);(file;offset;length);fields;(types;widths);f]
.Q.dsftg:{[d;s;f;t;g]
  w:sum t 1;at:s 1;
  end:$[0<s 2;at+s 2;hcount[s 0]+s 2];
  p:` sv(.Q.par . d),`;
  while[w<=end-at;
    n:w*.Q.M&1000000&(end-at)div w;
    p upsert .Q.en[d 0]g flip f!t 1:(s 0;at;n);
    at+:n];
  d 2}
/ creates the files of an empty nested vector, of a type given as upper-case letter or name, as kdb+ does: .Q.Xf[kind;file]
.Q.Xf:{[kind;file]
  if[not any kind~/:upper[.Q.t],`boolean`guid`byte`short`int`long`real`float`char`symbol`timestamp`month`date`datetime`timespan`minute`second`time;'`type];
  file 1:0xfe20,("x"$77+type kind$()),13#0x00;
  (`$string[file],"#")1:`byte$();
  file}
/ creates a file of an empty list of strings
.Q.Cf:{[file].Q.Xf[`char;file]}
/ parts of a URL, given as symbol or text: (scheme with ://;user:password;host:port;path). Anything without a scheme has no parts
.Q.hap:{[url]
  t:$[10h=type url;url;string url];
  t:(":"=first t)_t;
  n:first t ss"://";
  if[null n;:()];
  r:(n+:3)_t;
  at:min(r?"/?"),count r;
  host:at#r;
  m:1+last where"@"=host;
  path:at _r;
  (n#t;$[null m;"";(m-1)#host];$[null m;host;m _host];$["/"=first path;path;"/",path])}
/ HTTP request: .Q.hmb[url;method;body] with body () or (type;content). Returns head and content, unzipped. A plain request goes over
/ the proxy of HTTP_PROXY, except to hosts of NO_PROXY; a caller who may not read the environment has none
.Q.hmb:{[url;method;body]
  u:.Q.hap url;
  / a line's end in a URL, method or type would add fields, or a request, of its author
  text:{$[10h=type x;x;string x]};
  method:text method;
  mime:$[count body;text body 0;""];
  if[(not count u)or any"\r\n"in raze[u],method,mime;'`url];
  env:{[name]v:@[getenv;;""]each`$(name;lower name);first(v where 0<count each v),enlist""};
  skip:trim each","vs env"NO_PROXY";
  name:$["["=first u 2;(1+u[2]?"]")#u 2;(u[2]?":")#u 2];
  has:{[name;skip]$[not count skip;0b;skip~enlist"*";1b;"."=first skip;skip~neg[count skip]#name;skip~name]};
  is:("http://"~lower u 0)&not any has[name]each skip;
  p:$[is;env"HTTP_PROXY";""];
  px:.Q.hap$[count p;$[p like"*://*";p;"http://",p];"http://"];
  auth:{[name;login]$[count login;enlist name,": Basic ",.Q.btoa login;()]};
  head:enlist" "sv(method;$[count p;u[0],u[2],u 3;u 3];"HTTP/1.1");
  head,:("Connection: close";"Host: ",u 2;"Accept-Encoding: gzip");
  head,:auth["Authorization";u 1],auth["Proxy-Authorization";px 1];
  if[count body;head,:("Content-Type: ",mime;"Content-Length: ",string count body 1)];
  r:(`$":",raze$[count p;px;u]0 2)("\r\n"sv head,("";"")),$[count body;body 1;""];
  / the head ends with an empty line; a line may end with a line feed alone
  l:"\n"vs 200000 sublist r;
  m:l except\:"\r";
  e:first(where m~\:""),count m;
  n:count[r]&sum 1+count each(1+e)sublist l;
  f:lower e sublist m;
  is:"gzip"~trim last":"vs"",first f where f like"content-encoding:*";
  (n#r;$[is&n<count r;"c"$.Q.gz"x"$n _r;n _r])}
/ HTTP GET: content of a URL
.Q.hg:{[url]last .Q.hmb[url;`GET;()]}
/ HTTP POST of a text with its MIME type: content of the response
.Q.hp:{[url;mime;content]last .Q.hmb[url;`POST;(mime;content)]}
/ call stack of another process of this user, innermost level last
.Q.prf0:{[pid]-37!pid}
/ whether a file of a call stack is that of kdb+'s own functions
.Q.fqk:{[file]file like"*q.k"}
/ loads a script or database
.Q.l:{[dir]system"l ",string[dir]except":"}
/ loads more partitions of the loaded database
.Q.li:{[parts]
  root:$[count .Q.PD;first .Q.PD;`:.];
  parts,:();
  new:parts where{[root;p]not()~key` sv root,`$string p}[root]each parts;
  known:`#asc distinct .Q.PV,new;
  .Q.PV:known;.Q.PD:count[known]#root;
  .Q.view[];}
/ partitioned tables: none before a database is loaded
.Q.pt:()
/ partitions that .Q.MAP keeps mapped: none, as they are read on demand
.Q.pm:()
/ directory of the last partition
.Q.d0:{[x].Q.dd[last .Q.pd;last .Q.pv]}
/ rows of a table in some partitions: .Q.dt[partitions;t]
.Q.dt:{[parts;t].Q.cn[t]where .Q.pv in parts}
/ restricts a partitioned database to some partitions; as in kdb+, the columns of a table are those in the last one of them
.Q.view:{[parts]
  at:$[parts~(::);til count .Q.PV;where .Q.PV in parts];
  if[count[.Q.PV]&not count at;'"invalid partition filter"];
  .Q.pv:.Q.PV at;.Q.pd:.Q.PD at;
  .Q.pn:.Q.pt!count[.Q.pt]#enlist();
  .Q.pf set .Q.pv;
  if[not count .Q.pv;:(::)];
  {[dir;t]if[not()~key d:` sv dir,t;c:get` sv d,`.d;t set flip$[1<count c;c except .Q.pf;c]!t]}[.Q.d0[]]each .Q.pt;}
/ takes empty tables for those missing in partitions, as they are in the last partition that has them, in the first one if asked for
.Q.bv:{[first_]
  has:{[t]where{[t;d;p]not()~key` sv d,(`$string p),t,`.d}[t]'[.Q.pd;.Q.pv]}each .Q.pt;
  at:where(0<count each has)&count[.Q.pv]>count each has;
  one:$[first_~(::);last;first];
  none:{[t;p]0#?[t;enlist(=;.Q.pf;.Q.pv p);0b;()]};
  .Q.vp:(.Q.pt at)!none'[.Q.pt at;one each has at];}
/ as .Q.bv, for new partitions
.Q.bvi:{[x].Q.bv x}
/ Partitions are read on demand: there is nothing to map in advance.
/ keeps partitions mapped; does nothing here
.Q.MAP:{[x]}
/ adds empty tables where partitions lack them
.Q.chk:{[db]
  roots:$[()~key f:` sv db,`par.txt;enlist db;hsym each`$read0 f];
  parts:raze{[r]` sv'r,'k where(k:(),key r)like"[0-9]*"}each roots;
  parts:parts idesc last each` vs'parts;
  known:distinct raze key each parts;
  model:known!{[parts;t]first parts where t in'key each parts}[parts]each known;
  {[model;known;part]
    lacking:known except key part;
    {[model;part;t](` sv part,t,`)set 0#get` sv model[t],t,`}[model;part]each lacking;
    $[count lacking;enlist part;()]}[model;known]each parts}
/ table of a foreign key
.Q.fk:{[column]$[(20h<=type column)&98h<=type @[value;key column;()];key column;`]}
/ names of tables with their columns and types: of one, or of all in the root. JDBC drivers ask so
.Q.nct:{[x]
  one:{[name]m:0!meta name;([]n:count[m]#name;c:m`c;t:m`t)};
  raze one each $[all null x;tables`.;(),x]}
/ lines that the console shows of a value
.Q.s2:{[x]"\n"vs -1_.Q.s x}
/ text of a JDBC or ODBC client: q where it begins with q), else SQL
.o.ex:{[text]$["q)"~2#text;value 2_text;value"s)",text]}
/ rows of a table in the order that f, iasc or idesc, gives some columns: part of xasc and xdesc as a kdb+ process sends them
.Q.ord:{[f;names;t]$[any(iasc;<:)~\:f;xasc;any(idesc;>:)~\:f;xdesc;'`type][names;t]}
/ as-of join: filled or not, of the time of t or of u; part of aj as a kdb+ process sends it
.Q.ajf0:{[filled;own;names;t;u]$[filled;$[own;ajf;ajf0];$[own;aj;aj0]][names;t;u]}
/ columns or items of y, with those of x for nulls: part of ljf as a kdb+ process sends it
.Q.fl:{[x;y]$[98h=type x;flip flip[x]^flip y;x^y]}
/ text as JSON text
.j.s:{[text].j.j text}
