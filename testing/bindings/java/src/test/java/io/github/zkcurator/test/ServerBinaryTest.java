package io.github.zkcurator.test;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The program in the jar of the platform, which is in the class path of this test. */
@Timeout(120)
class ServerBinaryTest {
    private static final String RESOURCE = "/META-INF/zk-test-server/" + ServerBinary.platform() + "/zk-test-server";

    @TempDir
    Path cache;

    private Map<String, String> environment() {
        return Map.of("XDG_CACHE_HOME", cache.toString());
    }

    private static List<String> files(Path directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory)) {
            return paths.filter(Files::isRegularFile).map(directory::relativize).map(Path::toString)
                    .collect(Collectors.toList());
        }
    }

    @Test
    void theProgramIsExtractedOnce() throws IOException {
        Path program = ServerBinary.extract(RESOURCE, environment());
        assertTrue(program.startsWith(cache), program.toString());
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(program)));
        Path directory = program.getParent();
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(directory)));
        assertEquals(List.of("zk-test-server"), files(directory));
        Object before = Files.getAttribute(program, "unix:ino");
        assertEquals(program, ServerBinary.extract(RESOURCE, environment()));
        assertEquals(before, Files.getAttribute(program, "unix:ino"));
    }

    @Test
    void aDamagedProgramIsReplaced() throws IOException {
        Path program = ServerBinary.extract(RESOURCE, environment());
        Files.writeString(program, "#!/bin/sh\n");
        assertEquals(program, ServerBinary.extract(RESOURCE, environment()));
        assertTrue(Files.size(program) > 100_000);
    }

    @Test
    void aDirectoryThatOthersCanWriteIsNotUsed() throws IOException {
        Path directory = Files.createDirectory(cache.resolve("zk-test-server"));
        Files.setPosixFilePermissions(directory, PosixFilePermissions.fromString("rwxrwxrwx"));
        Path program = ServerBinary.extract(RESOURCE, environment());
        assertFalse(program.startsWith(cache), program.toString());
        assertTrue(Files.isExecutable(program));
        assertEquals(List.of(), files(cache));
    }

    @Test
    void aLinkInPlaceOfTheDirectoryIsNotUsed(@TempDir Path other) throws IOException {
        Files.createSymbolicLink(cache.resolve("zk-test-server"), other);
        Path program = ServerBinary.extract(RESOURCE, environment());
        assertFalse(program.startsWith(cache), program.toString());
        assertEquals(List.of(), files(other));
    }

    @Test
    void withoutACacheATemporaryDirectoryIsUsed() throws IOException {
        Path program = ServerBinary.extract(RESOURCE, Map.of());
        assertTrue(Files.isExecutable(program));
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(program.getParent())));
        // It is not shared, because another user could have created it before.
        assertNotEquals(program, ServerBinary.extract(RESOURCE, Map.of()));
    }

    @Test
    void threadsExtractAtTheSameTime() throws IOException {
        List<CompletableFuture<Path>> all = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            all.add(CompletableFuture.supplyAsync(() -> {
                try {
                    return ServerBinary.extract(RESOURCE, environment());
                } catch (IOException error) {
                    throw new java.io.UncheckedIOException(error);
                }
            }));
        }
        Path program = all.get(0).join();
        for (CompletableFuture<Path> one : all) {
            assertEquals(program, one.join());
        }
        assertEquals(1, files(cache).size());
    }

    @Test
    void virtualMachinesExtractAtTheSameTime() throws Exception {
        List<Process> all = new ArrayList<>();
        for (int machine = 0; machine < 3; machine++) {
            ProcessBuilder builder = Jvm.of(Greeter.class);
            builder.environment().put("XDG_CACHE_HOME", cache.toString());
            builder.environment().remove(ServerBinary.VARIABLE);
            all.add(builder.start());
        }
        for (Process one : all) {
            String said = new String(one.getInputStream().readAllBytes());
            assertEquals("standalone\n", said);
            assertEquals(0, one.waitFor());
        }
        assertEquals(1, files(cache).size());
    }

    /** Starts a server, and prints its role. */
    static final class Greeter {
        private Greeter() {}

        public static void main(String[] arguments) {
            try (ZkTestServer server = new ZkTestServer()) {
                System.out.println(server.info().getMembers().get(0).getRole());
            }
        }
    }

    @Test
    void theVariableComesFirst() throws IOException {
        Path program = cache.resolve("program");
        Files.writeString(program, "#!/bin/sh\n");
        Map<String, String> environment = Map.of(ServerBinary.VARIABLE, program.toString());
        FileNotFoundException error =
                assertThrows(FileNotFoundException.class, () -> ServerBinary.find(environment));
        assertEquals(ServerBinary.VARIABLE + " is '" + program + "', which is no program", error.getMessage());
        Files.setPosixFilePermissions(program, PosixFilePermissions.fromString("rwx------"));
        assertEquals(program, ServerBinary.find(environment));
    }
}
