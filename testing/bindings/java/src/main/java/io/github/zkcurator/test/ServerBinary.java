package io.github.zkcurator.test;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFileAttributes;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.DigestInputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.EnumSet;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * Finds the program: the environment variable {@code ZK_TEST_SERVER_BIN}, the program in the jar of the
 * platform, {@code zk-test-server} in the path.
 *
 * <p>The program of a jar is extracted once, to {@code zk-test-server/<SHA-256>/} in the cache directory
 * of the user, or, if that is not possible, to a temporary directory that is deleted when the virtual
 * machine ends. Only files with the right checksum, in a directory that only the user can write, are
 * executed. Virtual machines that extract at the same time do not disturb each other, because the
 * complete file is renamed into its place.
 */
final class ServerBinary {
    static final String VARIABLE = "ZK_TEST_SERVER_BIN";
    private static final String NAME = "zk-test-server";
    private static final Set<PosixFilePermission> OWNER_ONLY = PosixFilePermissions.fromString("rwx------");
    private static final Set<PosixFilePermission> WRITABLE_BY_OTHERS =
            EnumSet.of(PosixFilePermission.GROUP_WRITE, PosixFilePermission.OTHERS_WRITE);

    private static Path extracted;

    private ServerBinary() {}

    static Path find(Map<String, String> environment) throws IOException {
        String named = environment.get(VARIABLE);
        if (named != null && !named.isEmpty()) {
            Path path = Paths.get(named);
            if (!Files.isRegularFile(path) || !Files.isExecutable(path)) {
                throw new FileNotFoundException(VARIABLE + " is '" + named + "', which is no program");
            }
            return path.toAbsolutePath();
        }
        String resource = "/META-INF/zk-test-server/" + platform() + "/" + NAME;
        if (ServerBinary.class.getResource(resource) != null) {
            return extractOnce(resource, environment);
        }
        for (String directory : environment.getOrDefault("PATH", "").split(":")) {
            Path path = Paths.get(directory.isEmpty() ? "." : directory, NAME);
            if (Files.isRegularFile(path) && Files.isExecutable(path)) {
                return path.toAbsolutePath();
            }
        }
        throw new FileNotFoundException("the program " + NAME + " is neither named by " + VARIABLE
                + ", nor in the class path (the jar with the classifier " + platform() + "), nor in PATH");
    }

    /** Returns the classifier of the jar for this machine, such as {@code linux-x86_64}. */
    static String platform() {
        String system = System.getProperty("os.name").toLowerCase(Locale.ROOT);
        String machine = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        return (system.startsWith("mac") ? "osx" : system.replace(' ', '_')) + "-"
                + (machine.equals("amd64") ? "x86_64" : machine);
    }

    private static synchronized Path extractOnce(String resource, Map<String, String> environment)
            throws IOException {
        if (extracted == null || !Files.isExecutable(extracted)) {
            extracted = extract(resource, environment);
        }
        return extracted;
    }

    static Path extract(String resource, Map<String, String> environment) throws IOException {
        String checksum;
        try (InputStream in = open(resource + ".sha256")) {
            checksum = new String(in.readAllBytes(), StandardCharsets.US_ASCII).trim();
        }
        if (!checksum.matches("[0-9a-f]{64}")) {
            throw new IOException("the checksum in " + resource + ".sha256 is malformed");
        }
        IOException first;
        try {
            return place(resource, checksum, privateDirectory(cache(environment), checksum));
        } catch (IOException error) {
            first = error;
        }
        try {
            Path directory = Files.createTempDirectory(NAME + "-"); // 0700
            directory.toFile().deleteOnExit();
            directory.resolve(NAME).toFile().deleteOnExit(); // before its directory: the order is reversed
            return place(resource, checksum, directory);
        } catch (IOException error) {
            error.addSuppressed(first);
            throw error;
        }
    }

    private static Path cache(Map<String, String> environment) throws IOException {
        String cache = environment.getOrDefault("XDG_CACHE_HOME", "");
        if (cache.startsWith("/")) {
            return Paths.get(cache);
        }
        String home = environment.getOrDefault("HOME", "");
        if (!home.startsWith("/")) {
            throw new IOException("neither XDG_CACHE_HOME nor HOME is an absolute path");
        }
        return Paths.get(home, ".cache");
    }

    /** Creates the directory. Fails if another user could replace its content. */
    private static Path privateDirectory(Path cache, String checksum) throws IOException {
        Files.createDirectories(cache);
        Path parent = cache.resolve(NAME);
        Path directory = parent.resolve(checksum);
        for (Path path : new Path[] {parent, directory}) {
            if (!Files.isDirectory(path, LinkOption.NOFOLLOW_LINKS)) {
                Files.createDirectories(path, PosixFilePermissions.asFileAttribute(OWNER_ONLY));
            }
            requirePrivate(path, cache);
        }
        return directory;
    }

    private static void requirePrivate(Path path, Path cache) throws IOException {
        PosixFileAttributes attributes =
                Files.readAttributes(path, PosixFileAttributes.class, LinkOption.NOFOLLOW_LINKS);
        Set<PosixFilePermission> others = EnumSet.copyOf(WRITABLE_BY_OTHERS);
        others.retainAll(attributes.permissions());
        Path probe = Files.createTempFile(path, ".owner", "");
        try {
            if (!others.isEmpty() || !attributes.isDirectory()
                    || !Files.getOwner(probe).equals(attributes.owner())) {
                throw new IOException(path + " belongs to another user, or others can write to it");
            }
        } finally {
            Files.delete(probe);
        }
    }

    private static Path place(String resource, String checksum, Path directory) throws IOException {
        Path program = directory.resolve(NAME);
        if (Files.isRegularFile(program, LinkOption.NOFOLLOW_LINKS) && Files.isExecutable(program)
                && checksum.equals(copy(Files.newInputStream(program), OutputStream.nullOutputStream()))) {
            return program;
        }
        Path complete = Files.createTempFile(directory, ".extract", "",
                PosixFilePermissions.asFileAttribute(OWNER_ONLY));
        try {
            String copied = copy(open(resource), Files.newOutputStream(complete, StandardOpenOption.WRITE));
            if (!checksum.equals(copied)) {
                throw new IOException("the program in " + resource + " is damaged: its SHA-256 is " + copied);
            }
            Files.move(complete, program, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(complete);
        }
        if (!Files.isExecutable(program)) {
            throw new IOException(program + " cannot be executed: its file system may be mounted with noexec");
        }
        return program;
    }

    private static InputStream open(String resource) throws IOException {
        InputStream in = ServerBinary.class.getResourceAsStream(resource);
        if (in == null) {
            throw new FileNotFoundException(resource + " is not in the class path");
        }
        return in;
    }

    /** Copies and closes both. Returns the SHA-256 in hexadecimal digits. */
    private static String copy(InputStream from, OutputStream to) throws IOException {
        MessageDigest digest;
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new AssertionError("every platform has SHA-256", error);
        }
        try (InputStream in = new DigestInputStream(from, digest);
                OutputStream out = to) {
            in.transferTo(out);
        }
        StringBuilder text = new StringBuilder();
        for (byte value : digest.digest()) {
            text.append(String.format(Locale.ROOT, "%02x", value));
        }
        return text.toString();
    }
}
