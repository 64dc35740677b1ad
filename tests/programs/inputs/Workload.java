// A workload for java, which compiles and runs it: collections, streams, threads, native memory.
import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.IntStream;
import java.util.zip.Deflater;
import java.util.zip.GZIPOutputStream;

public class Workload {
    static String digest(byte[] data) throws Exception {
        byte[] sum = MessageDigest.getInstance("SHA-256").digest(data);
        return String.format("%02x%02x%02x%02x", sum[0], sum[1], sum[2], sum[3]);
    }

    static String collections(int seed) throws Exception {
        TreeMap<String, List<Integer>> map = new TreeMap<>();
        for (int i = 0; i < 30000; i++) {
            map.computeIfAbsent("key" + (i * 7919L + seed) % 5003, k -> new ArrayList<>()).add(i);
        }
        return digest(map.toString().getBytes(StandardCharsets.UTF_8));
    }

    // Direct buffers and deflaters take their memory from malloc.
    static String nativeMemory() throws Exception {
        List<ByteBuffer> kept = new ArrayList<>();
        long sum = 0;
        for (int i = 0; i < 2000; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1 + (int) (i * 7919L % 40000));
            for (int k = 0; k < buffer.capacity(); k += 512) {
                sum += buffer.get(k);
                buffer.put(k, (byte) i);
            }
            kept.add(buffer);
            if (kept.size() > 100) {
                kept.remove(i * 31 % 100);
            }
        }
        for (int i = 0; i < 300; i++) {
            Deflater deflater = new Deflater(i % 10);
            deflater.setInput(new byte[1000]);
            deflater.finish();
            sum += deflater.deflate(new byte[2000]) > 0 ? 1 : 0;
            deflater.end();
        }
        return "buffers " + sum;
    }

    public static void main(String[] arguments) throws Exception {
        System.out.println("collections " + collections(1));
        System.out.println(nativeMemory());
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        try (GZIPOutputStream out = new GZIPOutputStream(packed)) {
            for (int i = 0; i < 60000; i++) {
                out.write(Integer.toString(i * i).getBytes(StandardCharsets.UTF_8));
            }
        }
        System.out.println("gzip " + packed.size());
        System.out.println("streams "
                + IntStream.range(0, 600000).parallel().mapToLong(i -> (long) i * i % 1009).sum());
        String[] results = new String[8];
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < results.length; i++) {
            int index = i;
            Thread thread = new Thread(() -> {
                try {
                    results[index] = collections(index);
                } catch (Exception error) {
                    results[index] = error.toString();
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println("threads " + String.join(" ", results));
    }
}
