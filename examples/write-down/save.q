/ Saves what a node holds of the day that has ended: a start-up file for every node of the queue.
/   PARTS=/data/parts elastick rdb :5010 save.q
/ Each table becomes a splayed table in a directory of this node's own, PARTS/DATE/NODE/TABLE, with its symbols enumerated against
/ PARTS/DATE/NODE/sym: nodes that save at the same time never write the same file. join.q makes one partition of the parts.

PARTS:hsym`$$[count p:getenv`PARTS;p;"parts"]

.u.end:{[date]
  dir:` sv PARTS,(`$string date),.rdb.stats`node;
  t:tables[];
  / What holds rows of the day, and what has none: the partition is to have every table.
  held:distinct(exec tab from .rdb.windows where not null tab),t where 0=count each get each t;
  {[dir;t](` sv dir,t,`)set .Q.en[dir]0!get t}[dir]each held;
  / Last: a part without its windows is not whole, and join.q says so.
  (` sv dir,`windows)set .rdb.windows;
  }
