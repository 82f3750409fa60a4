// Lookups of Java programs: inet, jndi, netty or grpc; KIND NAME TIMES SECONDS
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.Hashtable;
import java.util.List;
import javax.naming.directory.Attribute;
import javax.naming.directory.InitialDirContext;

public class Lookups {
    static List<String> lookUp(String how, String kind, String name) throws Exception {
        List<String> found = new ArrayList<>();
        if (how.equals("netty")) {
            return NettyLookups.lookUp(kind, name);
        }
        if (how.equals("grpc")) {
            return GrpcLookups.lookUp(name);
        }
        if (how.equals("jndi")) {
            Hashtable<String, String> env = new Hashtable<>();
            env.put("java.naming.factory.initial", "com.sun.jndi.dns.DnsContextFactory");
            env.put("java.naming.provider.url", "dns:");
            String type = kind.equals("host") ? "A" : kind.toUpperCase();
            Attribute all = new InitialDirContext(env).getAttributes(name, new String[] {type}).get(type);
            for (int i = 0; all != null && i < all.size(); i++) {
                found.add(all.get(i).toString().replace(' ', '_'));
            }
        } else if (kind.equals("ptr")) {
            found.add(InetAddress.getByName(name).getHostName());
        } else {
            for (InetAddress each : InetAddress.getAllByName(name)) {
                found.add(each.getHostAddress());
            }
        }
        return found;
    }

    public static void main(String[] args) throws Exception {
        int times = Integer.parseInt(args[3]);
        if (args[0].equals("grpc")) {
            lookUp("grpc", "host", "127.0.0.1"); // so that its classes are loaded
            GrpcLookups.channel = null;
        }
        for (int number = 0; number < times; number++) {
            if (number > 0) {
                Thread.sleep((long) (Double.parseDouble(args[4]) * 1000));
            }
            System.out.println("begin");
            System.out.flush();
            System.in.read();
            try {
                List<String> found = lookUp(args[0], args[1], args[2]);
                System.out.println(found.isEmpty() ? "error no records" : "ok " + String.join(" ", found));
            } catch (Exception error) {
                String text = error.getClass().getSimpleName() + " " + error.getMessage();
                if (args[0].equals("netty")) {
                    Throwable root = error;
                    while (root.getCause() != null) {
                        root = root.getCause();
                    }
                    text = root.getClass().getSimpleName();
                }
                System.out.println("error " + text.replace('\n', ' '));
            }
            System.out.flush();
        }
        System.exit(0);
    }
}
