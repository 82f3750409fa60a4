package io.github.hsdns.testcontainers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.Hashtable;
import javax.naming.Context;
import javax.naming.NameNotFoundException;
import javax.naming.NamingException;
import javax.naming.directory.InitialDirContext;
import org.junit.jupiter.api.Test;

class HsdnsContainerTest {
    static String lookUp(HsdnsContainer cluster) throws NamingException {
        Hashtable<String, String> settings = new Hashtable<>();
        settings.put(Context.INITIAL_CONTEXT_FACTORY, "com.sun.jndi.dns.DnsContextFactory");
        settings.put(Context.PROVIDER_URL, "dns://" + cluster.dns());
        return new InitialDirContext(settings)
                .getAttributes("_http._tcp.web.shop.svc.cluster.local", new String[] {"SRV"})
                .get("SRV").get().toString();
    }

    @Test
    void aFaultIsHitOnceAndWhatIsWrongIsSaid() throws NamingException {
        try (HsdnsContainer cluster = new HsdnsContainer(Path.of("..", "manifests"))) {
            cluster.start();
            cluster.addFault("nxdomain type SRV times 1 named gone");
            assertThrows(NameNotFoundException.class, () -> lookUp(cluster));
            assertTrue(lookUp(cluster).contains(" 8080 web-0.web.shop.svc.cluster.local"));
            assertEquals(1, cluster.faults().get(0).hits());
            Exception wrong = assertThrows(IllegalArgumentException.class, () -> cluster.addFault("servfail"));
            assertTrue(wrong.getMessage().contains("did you mean \"rcode SERVFAIL\"?"), wrong.getMessage());
            assertThrows(IllegalArgumentException.class, () -> cluster.removeFault("other"));
        }
    }
}
