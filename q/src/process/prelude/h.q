/ .h and its helpers .hq: markup, text formats and HTTP.
/ the HTML of a line break
.h.br:"<br>"
/ first colour of pages
.h.c0:`024C7E
/ second colour of pages
.h.c1:`958600
/ separator of nested items in text of tables
.h.d:" "
/ directory of the files that are served
.h.HOME:"html"
/ HTML of a logo
.h.logo:""
/ style of links
.h.sa:"a{text-decoration:none}a:link{color:024C7E}a:visited{color:024C7E}a:active{color:958600}"
/ style of the body
.h.sb:"body{font:10pt verdana;text-align:justify}"
/ characters that need no escape in an address
.h.sc:"$-.+!*'(),abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
/ content type of each kind of file
.h.ty:(`htm`html`csv`txt`xml`xls`gif`jpg`jpeg`png`ico`js`css`json`svg`pdf`zip`doc`swf`mp4`webp`woff`wasm)!("text/html";"text/html";"text/comma-separated-values";"text/plain";"text/plain";"application/msexcel";"image/gif";"image/jpeg";"image/jpeg";"image/png";"image/x-icon";"application/javascript";"text/css";"application/json";"image/svg+xml";"application/pdf";"application/zip";"application/msword";"application/x-shockwave-flash";"video/mp4";"image/webp";"font/woff";"application/wasm")
.hq.str:{$[10h=abs type x;(),x;string x]}
/ HTML element: .h.htc[tag;body]
.h.htc:{[tag;body]n:string tag;"<",n,">",body,"</",n,">"}
/ opening tag with attributes: .h.hta[tag;attributes]
.h.hta:{[tag;attributes]
  one:{[k;v]" ",string[k],"=",$[10h=abs type v;"\"",((),v),"\"";string v]};
  "<",string[tag],(raze one'[key attributes;value attributes]),">"}
/ HTML element with attributes
.h.htac:{[tag;attributes;body].h.hta[tag;attributes],body,"</",string[tag],">"}
/ HTML link: .h.ha[to;body]
.h.ha:{[to;body].h.htac[`a;enlist[`href]!enlist to;body]}
/ HTML link that opens in another frame
.h.hb:{[to;body].h.htac[`a;`target`href!(`v;to);body]}
/ escapes < in text
.h.hc:{[x]ssr[x;"<";"&lt;"]}
/ a line of dashes as long as x
.h.hr:{[x]count[x]#"-"}
/ HTML without line breaks
.h.nbr:{[x].h.htc[`nobr;x]}
/ HTML of text with code between tabs
.h.code:{[x]p:"\t"vs x;" "sv @[p;1+2*til count[p]div 2;{.h.htc[`code;.h.nbr x]}]}
/ HTML of preformatted lines
.h.pre:{[x].h.htc[`pre;` sv x]}
/ HTML of lines shown as they are
.h.xmp:{[x].h.htc[`xmp;` sv x]}
/ HTML of paragraphs
.h.text:{[x]` sv .h.htc[`p]each x}
/ HTML page with the usual style
.h.html:{[x].h.htc[`html;.h.htc[`head;.h.htc[`style;.h.sa,.h.sb]],.h.htc[`body;x]]}
.hq.kind:{[x]$[x like"*\t *";`pairs;(first x)in".\t ";(".\t "!`section`code`xmp)first x;`p]}
.hq.marked:{[kind;x]
  named:{"<h3><a name=\"",x,"\">",x,"</a></h3>"};
  row:{.h.htc[`tr;raze .h.htc[`td]each .h.hc each trim each"\t "vs x]};
  $[kind=`section;raze named each .h.hc each 1_'x;kind=`code;.h.htc[`code;.h.br sv .h.hc each 1_'x];kind=`xmp;.h.xmp 1_'x;
    kind=`pairs;.h.htc[`table;raze row each x];.h.text .h.hc each x where 0<count each x]}
/ makes the pages of src/NAME.txt: NAME.htm with the frames a/_NAME.htm, the sections, and a/NAME.htm, the text: .h.ht name
.h.ht:{[x]
  file:{[p;t](`$":",p,".htm")0:enlist t};
  n:string x;t:read0`$":src/",n,".txt";
  title:.h.hc first t;top:.h.htc[`h2;title];
  if["-"~first first 1_t;top,:"<hr>"];
  t:(1+"-"~first first 1_t)_t;
  kinds:.hq.kind each t;
  b:where differ kinds;
  link:{[n;x].h.htac[`a;`target`href!(`v;n,".htm#",x);x],.h.br};
  file["a/",n;.h.html top,raze .hq.marked'[kinds b;b cut t]];
  file["a/_",n;.h.html raze link[n]each .h.hc each 1_'t where kinds=`section];
  file[n;.h.fram[title;();("a/_",n,".htm";"a/",n,".htm")]];
  `$":",n,".htm"}
/ HTML links around the addresses in text
.h.http:{[x]
  w:" "vs x;
  " "sv @[w;where{any x like/:("http://*";"https://*")}each w;{.h.ha[x;x]}]}
/ HTML page of two frames
.h.fram:{[title;text;pages]
  f:"<frameset cols=\"316,*\"><frame src=\"",pages[0],"\"><frame name=v src=\"",pages[1],"\"></frameset>";
  .h.htc[`html;.h.htc[`head;.h.htc[`title;title],f]]}
.hq.hex:{[x]"%",2#string"x"$x}
/ escapes text for an address
.h.hu:{[x]raze{$[x in .h.sc;x;.hq.hex x]}each x}
/ text of an escaped address
.h.uh:{[x]
  p:"%"vs x;
  raze enlist[first p],{("c"$16 sv"0123456789abcdef"?lower 2#x),2_x}each 1_p}
/ escapes all characters but those given
.h.hug:{[keep]{[keep;x]raze{[keep;c]$[c in keep;c;.hq.hex c]}[keep]each x}keep}
/ escapes text for XML
.h.xs:{[x]ssr/[x;("&";"<";">");("&amp;";"&lt;";"&gt;")]}
/ timestamp as ISO 8601
.h.iso8601:{[x]t:string"p"$x;@[t;4 7 10;:;"--T"]}
.hq.nested:{[x]flip{$[not type[x]in 0 77h;x;all 10h=abs type each x;x;.h.d sv/:string each x]}each flip 0!x}
/ table as lines of CSV
.h.cd:{[x]csv 0:$[.Q.qt x;.hq.nested x;x]}
/ table as lines with tabs
.h.td:{[x]"\t"0:$[.Q.qt x;.hq.nested x;x]}
.hq.xmltag:{[tag;body]"<",string[tag],">",body,"</",string[tag],">"}
/ table as lines of XML
.h.xd:{[x]
  row:{.hq.xmltag[`r;raze .hq.xmltag'[key x;.h.xs each .hq.str each value x]]};
  enlist["<R>"],(row each 0!x),enlist"</R>"}
.hq.cell:{[x]
  kind:$[abs[type x]in 5 6 7 8 9h;"Number";"String"];
  "<Cell><Data ss:Type=\"",kind,"\">",.h.xs[.hq.str x],"</Data></Cell>"}
.hq.row:{[x].h.htc[`Row;raze .hq.cell each x]}
/ table as a sheet of an Excel workbook
.h.es:{[name;t]
  rows:enlist[.hq.row cols t],.hq.row each value each 0!t;
  .h.htac[`Worksheet;enlist[`$"ss:Name"]!enlist string name;.h.htc[`Table;raze rows]]}
/ Excel workbook around sheets
.h.eb:{[x]
  space:{" xmlns",x,"=\"urn:schemas-microsoft-com:office:",y,"\""};
  "<Workbook",space["";"spreadsheet"],x,">"}
.hq.ehead:enlist"<?xml version=\"1.0\"?><?mso-application progid=\"Excel.Sheet\"?>"
.hq.eo:" xmlns:o=\"urn:schemas-microsoft-com:office:office\""
.hq.ess:" xmlns:ss=\"urn:schemas-microsoft-com:office:spreadsheet\""
/ table as an Excel workbook
.h.ed:{[t].hq.ehead,enlist(.h.eb .hq.eo,.hq.ess),.h.es[`Sheet1;t],"</Workbook>"}
/ dictionary of tables as an Excel workbook
.h.edsn:{[d].hq.ehead,enlist(.h.eb .hq.ess,.hq.eo),(raze .h.es'[key d;value d]),"</Workbook>"}
/ functions that turn a table into text, by kind of file
.h.tx:`raw`json`csv`txt`xml`xls!({[x]x};{[x].j.j each $[.Q.qt x;0!x;x]};.h.cd;.h.td;.h.xd;.h.ed)
/ functions that turn text into a value, by kind of file
.h.xt:`json`txt`csv!({[x].j.k each x};{[x]x};{[x]x})
/ HTTP response, zipped if the second argument says so; a body that is zipped stays as it is: .h.hnz[status;zip;kind;body]
.h.hnz:{[status;zip;kind;body]
  if[zip;if[not"\037\213"~2#body;body:-35!(6;body)]];
  mime:$[kind in key .h.ty;.h.ty kind;"application/octet-stream"];
  h:("HTTP/1.1 ",status;"Content-Type: ",mime;"Connection: close"),$[zip;enlist"Content-Encoding: gzip";()];
  h,:("Content-Length: ",string count body;"";"");
  ("\r\n"sv h),body}
/ HTTP response: .h.hn[status;kind;body]
.h.hn:{[status;kind;body].h.hnz[status;0b;kind;body]}
/ HTTP response of status 200: .h.hy[kind;body], or .h.hy[zip;kind;body] as .h.hnz
.h.hy:'[{[x]$[-1h=type first x;.h.hnz["200 OK"];.h.hn["200 OK"]]. x};enlist]
/ HTTP response of status 400 with an error
.h.he:{[x].h.hn["400 Bad Request";`txt;"'",x]}
/ HTTP response of a page with lines of text
.h.hp:{[x].h.hy[`htm;.h.htc[`html;.h.htc[`head;.h.htc[`style;.h.sb]],.h.htc[`body;.h.pre x]]]}
/ HTTP header that keeps a connection
.h.ka:{[ms]$[ms;"keep-alive\r\nKeep-Alive: timeout=",string ms div 1000;"close"]}
/ lines of a value, and for a table a part of it with links to the others; a page has four rows less than \C: .h.jx[from;name]
.h.jx:{[from;name]
  size:system"C";t:value name;
  if[not .Q.qt t;:.Q.S[size;0;t]];
  n:count t;page:1|size[0]-4;
  link:{"<a href=\"?[",string[x],"\">",y,"</a> "};
  top:raze link'[(0;0|from-page;(0|n-page)&from+page;0|n-page);("home";"up";"down";"end")];
  part:$[1b~.Q.qp t;.Q.ind[t;from+til 0|page&n-from];page sublist from _ 0!t];
  enlist[top,string[n],"[",string[from],"]"],enlist[""],.Q.S[size;0;part]}
/ function that evaluates the text of an HTTP request
.h.val:value
.hq.file:{[path;kind]
  r:$[any".."~/:"/"vs path;(0b;"");@[{(1b;"c"$read1`$":",x)};.h.HOME,"/",path;{(0b;x)}]];
  $[first r;.h.hy[kind;last r];.h.hn["404 Not Found";`txt;path,": not found"]]}
/ value of HTTP GET until it is set: a page with the value of the text after ?, or a file of the kind before it (csv?, .csv?, trade.csv?); without ? a file of .h.HOME
.z.ph:{[x]
  at:count[t]&(t:.h.uh$[10h=type x;x;first x])?"?";
  kind:`$last"."vs at#t;text:(1+at)_t;
  page:{.h.hp .h.xs each x};
  if[(0<at)&at=count t;:.hq.file[t;kind]];
  if[not count text;:page string tables`.];
  shown:{[page;kind;x]$[kind in key[.h.tx]except`raw;.h.hy[kind;"\n"sv .h.tx[kind]x];page .Q.S[system"C";0;x]]};
  r:@[{[shown;x](1b;shown .h.val x)}[shown[page;kind]];text;{(0b;x)}];
  / 500: the request was valid, but met the memory limit
  $[first r;r 1;"wsfull"~r 1;.h.hn["500 Internal Server Error";`txt;"'wsfull\n"];.h.he r 1]}
