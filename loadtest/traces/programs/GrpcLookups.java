import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Whom a channel tries to connect to. */
class GrpcLookups {
    static final Pattern ADDRESS = Pattern.compile("/\\[?([0-9a-f.:]+?)\\]?:50051");
    static final MethodDescriptor.Marshaller<byte[]> BYTES =
            new MethodDescriptor.Marshaller<>() {
                @Override
                public InputStream stream(byte[] value) {
                    return new ByteArrayInputStream(value);
                }

                @Override
                public byte[] parse(InputStream stream) {
                    try {
                        return stream.readAllBytes();
                    } catch (IOException error) {
                        throw new UncheckedIOException(error);
                    }
                }
            };
    static final MethodDescriptor<byte[], byte[]> METHOD =
            MethodDescriptor.newBuilder(BYTES, BYTES)
                    .setType(MethodDescriptor.MethodType.UNARY)
                    .setFullMethodName("a.B/c")
                    .build();
    static ManagedChannel channel;

    static List<String> lookUp(String name) {
        if (channel == null) {
            channel = ManagedChannelBuilder.forTarget("dns:///" + name + ":50051").usePlaintext().build();
        }
        Set<String> found = new LinkedHashSet<>();
        try {
            ClientCalls.blockingUnaryCall(channel, METHOD, CallOptions.DEFAULT, new byte[0]);
        } catch (StatusRuntimeException error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                Matcher matcher = ADDRESS.matcher("" + cause.getMessage());
                while (matcher.find()) {
                    found.add(matcher.group(1));
                }
            }
            if (found.isEmpty()) {
                throw error;
            }
        }
        return new ArrayList<>(found);
    }
}
