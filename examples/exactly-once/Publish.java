import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import kx.c;

/**
 * Publishes the lines of a day's file, each exactly once, whatever is cut off or killed, also this program.
 *
 * <pre>java Publish trades.csv 20261124 localhost 5010</pre>
 *
 * A line is SYM,PRICE,SIZE. The number of an update is the date, then nine digits for its last line (from 1): 20261124000000100.
 * So numbers rise over days. Exits with 1 if going on could lose or hide rows. Needs KX's c.java.
 */
public class Publish {
    static final String ID = "feed1";
    static final int BATCH = 100;
    static final long LINES_A_DAY = 1_000_000_000L;

    /** An error that does not pass. */
    static class Stop extends Exception {
        Stop(String reason) {
            super(reason);
        }
    }

    final List<String> lines;
    final long beforeFirst;
    /** Highest number sent; null before the first connect. */
    Long sent;
    long done;

    Publish(List<String> lines, long date) {
        this.lines = lines;
        this.beforeFirst = date * LINES_A_DAY;
    }

    /** Columns of the lines from..to-1, counted from 0. */
    Object[] columns(int from, int to) throws Stop {
        String[] syms = new String[to - from];
        double[] prices = new double[to - from];
        long[] sizes = new long[to - from];
        for (int i = 0; i < to - from; i++) {
            String[] parts = lines.get(from + i).split(",", -1);
            if (parts.length != 3) {
                throw new Stop("line " + (from + i + 1) + ": expected SYM,PRICE,SIZE");
            }
            try {
                syms[i] = parts[0];
                prices[i] = Double.parseDouble(parts[1]);
                sizes[i] = Long.parseLong(parts[2]);
            } catch (NumberFormatException error) {
                throw new Stop("line " + (from + i + 1) + ": " + error.getMessage());
            }
        }
        return new Object[] {syms, prices, sizes};
    }

    /** After every connect: the line up to which the tickerplant has this file. */
    void connected(c connection) throws c.KException, IOException, Stop {
        long last = (Long) connection.k(".u.seq", ID); // Null, the smallest long, means that there is none.
        if (sent != null && last > sent) {
            throw new Stop("another process uses the id: the tickerplant has the number " + last + ", and this process sent " + sent + " at most");
        }
        done = last < beforeFirst ? 0 : last - beforeFirst;
        if (done > lines.size()) {
            throw new Stop("the tickerplant has the number " + last + ", which is after the end of this file: wrong date, a later day, or another file");
        }
        sent = Math.max(last, beforeFirst);
    }

    void publish(c connection) throws c.KException, IOException, Stop {
        connected(connection);
        while (done < lines.size()) {
            int to = (int) Math.min(done + BATCH, lines.size());
            Object[] rows = columns((int) done, to);
            sent = beforeFirst + to;
            // Returns when the update is as durable as the tickerplant promises.
            connection.k(new Object[] {".u.upd".toCharArray(), "trade", rows, ID, sent});
            done = to;
        }
    }

    void run(String host, int port) throws Stop, InterruptedException {
        while (true) {
            try {
                c connection = new c(host, port);
                try {
                    publish(connection);
                    return;
                } finally {
                    connection.close();
                }
            } catch (c.KException error) {
                if (!String.valueOf(error.getMessage()).startsWith("io")) {
                    // `seq`: another process uses the id.
                    throw new Stop("after line " + done + ": " + error.getMessage());
                }
                System.err.println("connecting again: " + error.getMessage());
            } catch (IOException error) {
                System.err.println("connecting again: " + error.getMessage());
            }
            // Only after a lost connection and `io`: connect again, and continue after what .u.seq returns.
            Thread.sleep(1000);
        }
    }

    public static void main(String[] args) throws IOException, InterruptedException {
        Publish publisher = new Publish(Files.readAllLines(Path.of(args[0])), Long.parseLong(args[1]));
        try {
            publisher.run(args[2], Integer.parseInt(args[3]));
            System.out.println("published " + publisher.lines.size() + " lines");
        } catch (Stop stop) {
            System.err.println(stop.getMessage());
            System.exit(1);
        }
    }
}
