// Kafka's DelayedOperationPurgatory over its SystemTimer: operations watched under a key each, or
// 100 under one, and completed by a check of the key.

package pykcoord.benches;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.server.purgatory.DelayedOperation;
import org.apache.kafka.server.purgatory.DelayedOperationKey;
import org.apache.kafka.server.purgatory.DelayedOperationPurgatory;
import org.apache.kafka.server.util.timer.SystemTimer;
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
public class Purgatories {
    private static final int TIMEOUT_MS = 30_000;

    record Key(String group) implements DelayedOperationKey {
        @Override
        public String keyLabel() {
            return group;
        }
    }

    static final class Operation extends DelayedOperation {
        private final Purgatories owner;

        Operation(Purgatories owner) {
            super(TIMEOUT_MS);
            this.owner = owner;
        }

        @Override
        public boolean tryComplete() {
            return owner.complete && forceComplete();
        }

        @Override
        public void onComplete() {
            owner.completed++;
        }

        @Override
        public void onExpiration() {
            throw new IllegalStateException("nothing expires here");
        }
    }

    @Param("10000")
    public int entries;
    @Param("1")
    public int each;
    private List<List<Key>> keys;
    private DelayedOperationPurgatory<Operation> purgatory;
    private boolean complete;
    private int completed;

    @Setup(Level.Iteration)
    public void open() {
        keys = new ArrayList<>();
        for (int key = 0; key < (entries + each - 1) / each; key++) {
            keys.add(List.of(new Key(String.format("orders-app-%07d", key))));
        }
        purgatory = new DelayedOperationPurgatory<>("bench", new SystemTimer("bench"), 1, false);
        completed = 0;
    }

    @TearDown(Level.Iteration)
    public void close() throws Exception {
        purgatory.shutdown();
    }

    @Benchmark
    public int watchAndComplete() {
        complete = false;
        for (int index = 0; index < entries; index++) {
            purgatory.tryCompleteElseWatch(new Operation(this), keys.get(index / each));
        }
        complete = true;
        for (List<Key> key : keys) {
            purgatory.checkAndComplete(key.get(0));
        }
        if (completed != entries) {
            throw new IllegalStateException(completed + " of " + entries + " completed");
        }
        return completed;
    }
}
