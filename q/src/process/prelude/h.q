/ .h and its helpers .hq: markup, text formats and HTTP.
.h.br:"<br>"
.h.c0:`024C7E
.h.c1:`958600
.h.d:" "
.h.HOME:"html"
.h.logo:""
.h.sa:"a{text-decoration:none}a:link{color:024C7E}a:visited{color:024C7E}a:active{color:958600}"
.h.sb:"body{font:10pt verdana;text-align:justify}"
.h.sc:"$-.+!*'(),abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"
.h.ty:(`htm`html`csv`txt`xml`xls`gif`jpg`jpeg`png`ico`js`css`json`svg`pdf`zip`doc`swf`mp4`webp`woff`wasm)!("text/html";"text/html";"text/comma-separated-values";"text/plain";"text/plain";"application/msexcel";"image/gif";"image/jpeg";"image/jpeg";"image/png";"image/x-icon";"application/javascript";"text/css";"application/json";"image/svg+xml";"application/pdf";"application/zip";"application/msword";"application/x-shockwave-flash";"video/mp4";"image/webp";"font/woff";"application/wasm")
.hq.str:{$[10h=abs type x;(),x;string x]}
.h.htc:{[tag;body]n:string tag;"<",n,">",body,"</",n,">"}
.h.hta:{[tag;attributes]
  one:{[k;v]" ",string[k],"=",$[10h=abs type v;"\"",((),v),"\"";string v]};
  "<",string[tag],(raze one'[key attributes;value attributes]),">"}
.h.htac:{[tag;attributes;body].h.hta[tag;attributes],body,"</",string[tag],">"}
.h.ha:{[to;body].h.htac[`a;enlist[`href]!enlist to;body]}
.h.hb:{[to;body].h.htac[`a;`target`href!(`v;to);body]}
.h.hc:{[x]ssr[x;"<";"&lt;"]}
.h.hr:{[x]count[x]#"-"}
.h.nbr:{[x].h.htc[`nobr;x]}
.h.code:{[x]p:"\t"vs x;" "sv @[p;1+2*til count[p]div 2;{.h.htc[`code;.h.nbr x]}]}
.h.pre:{[x].h.htc[`pre;` sv x]}
.h.xmp:{[x].h.htc[`xmp;` sv x]}
.h.text:{[x]` sv .h.htc[`p]each x}
.h.html:{[x].h.htc[`html;.h.htc[`head;.h.htc[`style;.h.sa,.h.sb]],.h.htc[`body;x]]}
.h.http:{[x]
  w:" "vs x;
  " "sv @[w;where{any x like/:("http://*";"https://*")}each w;{.h.ha[x;x]}]}
.h.fram:{[title;text;pages]
  f:"<frameset cols=\"316,*\"><frame src=\"",pages[0],"\"><frame name=v src=\"",pages[1],"\"></frameset>";
  .h.htc[`html;.h.htc[`head;.h.htc[`title;title],f]]}
.hq.hex:{[x]"%",2#string"x"$x}
.h.hu:{[x]raze{$[x in .h.sc;x;.hq.hex x]}each x}
.h.uh:{[x]
  p:"%"vs ssr[x;"+";" "];
  raze enlist[first p],{("c"$16 sv"0123456789abcdef"?lower 2#x),2_x}each 1_p}
.h.hug:{[keep]{[keep;x]raze{[keep;c]$[c in keep;c;.hq.hex c]}[keep]each x}keep}
.h.xs:{[x]ssr/[x;("&";"<";">");("&amp;";"&lt;";"&gt;")]}
.h.iso8601:{[x]t:string"p"$x;@[t;4 7 10;:;"--T"]}
.hq.nested:{[x]flip{$[0h<>type x;x;all 10h=abs type each x;x;.h.d sv/:string each x]}each flip 0!x}
.h.cd:{[x]csv 0:$[.Q.qt x;.hq.nested x;x]}
.h.td:{[x]"\t"0:$[.Q.qt x;.hq.nested x;x]}
.hq.xmltag:{[tag;body]"<",string[tag],">",body,"</",string[tag],">"}
.h.xd:{[x]
  row:{.hq.xmltag[`r;raze .hq.xmltag'[key x;.h.xs each .hq.str each value x]]};
  enlist["<R>"],(row each 0!x),enlist"</R>"}
.hq.cell:{[x]
  kind:$[abs[type x]in 5 6 7 8 9h;"Number";"String"];
  "<Cell><Data ss:Type=\"",kind,"\">",.h.xs[.hq.str x],"</Data></Cell>"}
.hq.row:{[x].h.htc[`Row;raze .hq.cell each x]}
.h.es:{[name;t]
  rows:enlist[.hq.row cols t],.hq.row each value each 0!t;
  .h.htac[`Worksheet;enlist[`$"ss:Name"]!enlist string name;.h.htc[`Table;raze rows]]}
.h.eb:{[x]
  space:{" xmlns",x,"=\"urn:schemas-microsoft-com:office:",y,"\""};
  "<Workbook",space["";"spreadsheet"],x,">"}
.hq.ehead:enlist"<?xml version=\"1.0\"?><?mso-application progid=\"Excel.Sheet\"?>"
.hq.eo:" xmlns:o=\"urn:schemas-microsoft-com:office:office\""
.hq.ess:" xmlns:ss=\"urn:schemas-microsoft-com:office:spreadsheet\""
.h.ed:{[t].hq.ehead,enlist(.h.eb .hq.eo,.hq.ess),.h.es[`Sheet1;t],"</Workbook>"}
.h.edsn:{[d].hq.ehead,enlist(.h.eb .hq.ess,.hq.eo),(raze .h.es'[key d;value d]),"</Workbook>"}
.h.tx:`raw`json`csv`txt`xml`xls!({[x]x};{[x].j.j each $[.Q.qt x;0!x;x]};.h.cd;.h.td;.h.xd;.h.ed)
.h.xt:`json`txt`csv!({[x].j.k each x};{[x]x};{[x]x})
.h.hn:{[status;kind;body]
  mime:$[kind in key .h.ty;.h.ty kind;"application/octet-stream"];
  h:("HTTP/1.1 ",status;"Content-Type: ",mime;"Connection: close";"Content-Length: ",string count body;"";"");
  ("\r\n"sv h),body}
.h.hy:{[kind;body].h.hn["200 OK";kind;body]}
.h.he:{[x].h.hn["400 Bad Request";`txt;"'",x]}
.h.hp:{[x].h.hy[`htm;.h.htc[`html;.h.htc[`head;.h.htc[`style;.h.sb]],.h.htc[`body;.h.pre x]]]}
.h.ka:{[ms]$[ms;"keep-alive\r\nKeep-Alive: timeout=",string ms div 1000;"close"]}
.h.jx:{[from;name]
  t:0!value name;n:count t;page:32;
  link:{"<a href=\"?[",string[x],"\">",y,"</a> "};
  top:raze link'[(0;0|from-page;(0|n-page)&from+page;0|n-page);("home";"up";"down";"end")];
  enlist[top,string[n],"[",string[from],"]"],enlist[""],"\n"vs -1_.Q.s page sublist from _ t}
.h.val:value
