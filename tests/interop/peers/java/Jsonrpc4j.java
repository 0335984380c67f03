// jsonrpc4j, over HTTP and over a plain socket on which values stand back to back:
//
//   java Jsonrpc4j server http|tcp               prints its port
//   java Jsonrpc4j client http|tcp URL POINTS…
//
// Its client has no batches and asks one thing at a time on a socket; nobody cancels or calls back.
// The HTTP server is the JDK's, with jsonrpc4j's own statuses: 400, 404 and 500 with a body.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.googlecode.jsonrpc4j.DefaultErrorResolver;
import com.googlecode.jsonrpc4j.DefaultHttpStatusCodeProvider;
import com.googlecode.jsonrpc4j.ErrorResolver.JsonError;
import com.googlecode.jsonrpc4j.JsonRpcBasicServer;
import com.googlecode.jsonrpc4j.JsonRpcClient;
import com.googlecode.jsonrpc4j.JsonRpcClientException;
import com.googlecode.jsonrpc4j.JsonRpcHttpClient;
import com.googlecode.jsonrpc4j.JsonRpcParam;
import com.googlecode.jsonrpc4j.StreamServer;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

public class Jsonrpc4j {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Map<String, Object> FAILURE =
        Map.of("code", 7, "message", "failed", "data", Map.of("x", List.of(1, "é€")));

    // -- the server

    public interface Service {
        int subtract(@JsonRpcParam("minuend") int minuend, @JsonRpcParam("subtrahend") int subtrahend);

        List<JsonNode> echo(@JsonRpcParam("value") JsonNode value);

        void fail(@JsonRpcParam("code") int code, @JsonRpcParam("message") String message,
                  @JsonRpcParam("data") JsonNode data);

        String sleep(@JsonRpcParam("millis") int millis) throws InterruptedException;

        void update(@JsonRpcParam("value") JsonNode value);

        int count();
    }

    static class Methods implements Service {
        private final AtomicInteger counted = new AtomicInteger();

        public int subtract(int minuend, int subtrahend) {
            return minuend - subtrahend;
        }

        public List<JsonNode> echo(JsonNode value) {
            return List.of(value);
        }

        public void fail(int code, String message, JsonNode data) {
            throw new JsonRpcClientException(code, message, data);
        }

        public String sleep(int millis) throws InterruptedException {
            Thread.sleep(millis);
            return "slept";
        }

        public void update(JsonNode value) {
            counted.incrementAndGet();
        }

        public int count() {
            return counted.get();
        }
    }

    static void serve(String kind) throws Exception {
        JsonRpcBasicServer rpc = new JsonRpcBasicServer(MAPPER, new Methods(), Service.class);
        rpc.setShouldLogInvocationErrors(false);
        rpc.setErrorResolver((thrown, method, arguments) -> thrown instanceof JsonRpcClientException failed
            ? new JsonError(failed.getCode(), failed.getMessage(), failed.getData())
            : DefaultErrorResolver.INSTANCE.resolveError(thrown, method, arguments));
        InetAddress local = InetAddress.getByName("127.0.0.1");
        if (kind.equals("tcp")) {
            ServerSocket socket = new ServerSocket(0, 50, local);
            new StreamServer(rpc, 10, socket).start();
            System.out.println(socket.getLocalPort());
            return;
        }
        HttpServer server = HttpServer.create(new InetSocketAddress(local, 0), 50);
        server.setExecutor(Executors.newFixedThreadPool(110));
        server.createContext("/", exchange -> {
            ByteArrayOutputStream body = new ByteArrayOutputStream();
            int code = rpc.handleRequest(exchange.getRequestBody(), body);
            int status = DefaultHttpStatusCodeProvider.INSTANCE.getHttpStatusCode(code);
            exchange.getResponseHeaders().set("Content-Type", "application/json-rpc");
            exchange.sendResponseHeaders(status, body.size() == 0 ? -1 : body.size());
            exchange.getResponseBody().write(body.toByteArray());
            exchange.close();
        });
        server.start();
        System.out.println(server.getAddress().getPort());
    }

    // -- the client

    interface Caller {
        JsonNode call(String method, Object params) throws Throwable;
    }

    static void client(String kind, URI target, List<String> points) throws Throwable {
        Caller caller;
        Socket socket = null;
        if (kind.equals("http")) {
            JsonRpcHttpClient client =
                new JsonRpcHttpClient(MAPPER, target.toURL(), Collections.emptyMap());
            caller = (method, params) -> client.invoke(method, params, JsonNode.class);
        } else {
            socket = new Socket(target.getHost(), target.getPort());
            JsonRpcClient client = new JsonRpcClient(MAPPER);
            var in = socket.getInputStream();
            var out = socket.getOutputStream();
            caller = (method, params) -> client.invokeAndReadResponse(method, params, JsonNode.class, out, in);
            if (points.contains("notification")) {
                notify(caller, client, socket);
            }
        }
        for (String point : points) {
            switch (point) {
                case "position" -> expect(caller.call("subtract", List.of(42, 23)).asInt() == 19);
                case "name" -> expect(
                    caller.call("subtract", Map.of("minuend", 42, "subtrahend", 23)).asInt() == 19);
                case "error" -> errors(caller);
                case "order" -> order(caller);
                case "text" -> {
                    String text = "äß€😀".repeat(100000);
                    expect(caller.call("echo", List.of(text)).get(0).asText().equals(text));
                }
                case "notification" -> { }
                default -> throw new IllegalArgumentException("it has no " + point);
            }
            System.out.println("seen " + point);
        }
        if (socket != null) {
            socket.close();
        }
        System.out.println("ok");
    }

    static void notify(Caller caller, JsonRpcClient client, Socket socket) throws Throwable {
        int before = caller.call("count", List.of()).asInt();
        for (int i = 0; i < 3; i++) {
            client.invokeNotification("update", List.of(i), socket.getOutputStream());
        }
        while (caller.call("count", List.of()).asInt() != before + 3) {
            Thread.sleep(10);
        }
    }

    static void errors(Caller caller) throws Throwable {
        try {
            caller.call("fail", FAILURE);
            throw new AssertionError("no error came");
        } catch (JsonRpcClientException failed) {
            expect(failed.getCode() == 7 && failed.getMessage().equals("failed"));
            expect(failed.getData().equals(MAPPER.valueToTree(FAILURE.get("data"))));
        }
        try {
            caller.call("nope", List.of());
            throw new AssertionError("nope was found");
        } catch (JsonRpcClientException failed) {
            expect(failed.getCode() == -32601);
        }
    }

    static void order(Caller caller) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(100);
        List<Integer> ended = Collections.synchronizedList(new ArrayList<>());
        List<Future<?>> calls = new ArrayList<>();
        for (int i = 0; i < 100; i++) {
            int place = i;
            calls.add(threads.submit(() -> {
                try {
                    if (place % 2 == 0) {
                        expect(caller.call("sleep", List.of(800 - 8 * place)).asText().equals("slept"));
                    } else {
                        expect(caller.call("echo", List.of(place)).get(0).asInt() == place);
                    }
                } catch (Throwable failed) {
                    throw new IllegalStateException(failed);
                }
                ended.add(place);
            }));
        }
        for (Future<?> call : calls) {
            call.get();
        }
        threads.shutdown();
        expect(ended.indexOf(0) > 0);
    }

    static void expect(boolean held) {
        if (!held) {
            throw new AssertionError("it did not hold");
        }
    }

    public static void main(String[] words) throws Throwable {
        if (words.length == 2 && words[0].equals("server")) {
            serve(words[1]);
        } else if (words.length > 3 && words[0].equals("client")) {
            client(words[1], URI.create(words[2]), List.of(words).subList(3, words.length));
        } else {
            throw new IllegalArgumentException("usage: server http|tcp | client http|tcp URL POINTS…");
        }
    }
}
