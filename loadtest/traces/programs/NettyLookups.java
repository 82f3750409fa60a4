import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.nio.NioDatagramChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.codec.dns.DefaultDnsQuestion;
import io.netty.handler.codec.dns.DnsRecord;
import io.netty.handler.codec.dns.DnsRecordType;
import io.netty.resolver.dns.DnsNameResolver;
import io.netty.resolver.dns.DnsNameResolverBuilder;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;

class NettyLookups {
    static final NioEventLoopGroup GROUP = new NioEventLoopGroup(1);
    static final DnsNameResolver RESOLVER =
            new DnsNameResolverBuilder(GROUP.next())
                    .channelType(NioDatagramChannel.class)
                    .socketChannelType(NioSocketChannel.class)
                    .build();

    static List<String> lookUp(String kind, String name) throws Exception {
        List<String> found = new ArrayList<>();
        if (kind.equals("host")) {
            for (InetAddress each : RESOLVER.resolveAll(name).get()) {
                found.add(each.getHostAddress());
            }
        } else {
            for (DnsRecord each :
                    RESOLVER.resolveAll(new DefaultDnsQuestion(name, DnsRecordType.valueOf(kind.toUpperCase()))).get()) {
                found.add(each.type().name());
            }
        }
        return found;
    }
}
