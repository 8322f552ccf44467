// Kafka's shard reads a log that pykcoord's benchmark wrote: records decoded and applied.

package pykcoord.benches;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@State(Scope.Thread)
public class Loading {
    @Param("log")
    public String file;
    @Param("10000")
    public int entries;
    private ByteBuffer log;
    private Shard shard;

    @Setup(Level.Trial)
    public void read() throws IOException {
        log = ByteBuffer.wrap(Files.readAllBytes(Path.of(file)));
    }

    @Setup(Level.Iteration)
    public void open() {
        shard = new Shard();
    }

    @TearDown(Level.Iteration)
    public void close() {
        shard.close();
    }

    @Benchmark
    public int load() {
        int records = shard.load(log);
        if (records < entries) {
            throw new IllegalStateException(records + " of " + entries + " records");
        }
        return records;
    }
}
