#!/usr/bin/env python3
"""Do both engines of `coreshard record` name the same objects, in the same order?

Builds programs of other people twice, as they are and with the recorder's flags, records each some times with both engines,
replays all recordings, and holds the five costliest objects against each other. An object's share is its part of the time
that all objects cost, the median of an engine's recordings. Left out is what has no name to be compared by, such as stacks,
and the data of libraries, which the engine tsan does not see.

Recordings of one engine are held against each other, too: nothing can agree better than an engine does with itself. Two
objects are *apart* in an engine where every recording's share of the one is above every recording's of the other. Writes a
table in Markdown to standard output, and each object's shares to FOLDER/recordings.

Usage: lab/two_engines.py COMMAND FOLDER [PROGRAM...]

FOLDER gets sources (from Debian's archive by apt-get source, and from crates.io), programs and recordings; some 3 GB, and
what is there is not built again. Needs gcc, apt-get, tclsh (SQLite), a nightly Rust, Go, and qemu-x86_64.
"""

import glob
import itertools
import json
import os
import random
import statistics
import subprocess
import sys

MACHINE = "epyc-9654-2s"
FIRST = 5
TURNS = 3
RELEASES = ("bookworm", "trixie")
SOURCES = ("pigz", "zlib", "libzstd", "xz-utils", "redis", "sqlite3", "x264", "coreutils")


def run(command, **more):
    return subprocess.run(command, check=True, text=True, **more)


def quiet(command, **more):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout[-3000:]}")


class Lab:
    def __init__(self, command, folder):
        self.command = os.path.abspath(command)
        self.folder = os.path.realpath(folder)
        os.makedirs(self.folder, exist_ok=True)
        self.flags = {language: run([self.command, "record", "--flags", language], capture_output=True).stdout.split()
                      for language in ("c", "rust")}

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def sources(self):
        """Debian's sources, from a separate archive list: the system's settings are not changed."""
        if os.path.isdir(self.at("sources")):
            return
        for name in ("apt/lists/partial", "apt/cache/archives/partial", "downloads"):
            os.makedirs(self.at(name), exist_ok=True)
        with open(self.at("apt/sources.list"), "w") as out:
            for release in RELEASES:
                out.write(f"deb-src http://deb.debian.org/debian {release} main\n")
        with open(self.at("apt/apt.conf"), "w") as out:
            out.write(f'Dir::Etc::sourcelist "{self.at("apt/sources.list")}";\nDir::Etc::sourceparts "/dev/null";\n'
                      f'Dir::State::lists "{self.at("apt/lists")}";\nDir::Cache "{self.at("apt/cache")}";\n')
        environment = dict(os.environ, APT_CONFIG=self.at("apt/apt.conf"))
        quiet(["apt-get", "update"], env=environment)
        os.makedirs(self.at("sources.part"), exist_ok=True)
        for package in SOURCES:
            for release in RELEASES:
                done = subprocess.run(["apt-get", "source", "--download-only", f"{package}/{release}"], env=environment,
                                      cwd=self.at("downloads"), capture_output=True)
                if done.returncode == 0:
                    break
        for archive in glob.glob(self.at("downloads/*.orig.tar.*")):
            if not archive.endswith(".asc") and "-www" not in archive:
                quiet(["tar", "xf", archive], cwd=self.at("sources.part"))
        os.rename(self.at("sources.part"), self.at("sources"))

    def source(self, pattern):
        found = sorted(glob.glob(self.at("sources", pattern)))
        if not found:
            raise SystemExit(f"no sources {pattern} in {self.at('sources')}")
        return found[0]

    def inputs(self):
        """Text and numbers, the same each time."""
        draw = random.Random(1)
        if not os.path.exists(self.at("text")):
            words = ["".join(draw.choice("abcdefghijklmnop") for _ in range(draw.randint(2, 9))) for _ in range(2000)]
            os.makedirs(self.at("tree"), exist_ok=True)
            for file in range(200):
                with open(self.at("tree", f"{file}.c"), "w") as out:
                    out.writelines(" ".join(draw.choices(words, k=9)) + ";\n" for _ in range(60))
            with open(self.at("text"), "w") as out:
                out.writelines(" ".join(draw.choices(words, k=9)) + "\n" for _ in range(40000))
        if not os.path.exists(self.at("numbers")):
            # With fewer than 131,072 lines to each, sort takes no second thread.
            with open(self.at("numbers"), "w") as out:
                out.writelines(f"{draw.randrange(10**6)}\n" for _ in range(270000))
        if not os.path.exists(self.at("film.yuv")):
            with open(self.at("film.yuv"), "wb") as out:
                for frame in range(12):
                    out.write(bytes((x * y // 64 + frame * 3 + draw.randrange(8)) & 255
                                    for y in range(144) for x in range(176)))
                    out.write(bytes([128]) * (176 * 144 // 2))


def compiled(lab, name, sources, options, libraries):
    """Builds both programs with only the compiler."""
    for kind, flags in (("plain", ["-g"]), ("tsan", lab.flags["c"])):
        program = lab.at("programs", f"{name}.{kind}")
        if not os.path.exists(program):
            quiet(["gcc", "-O2", "-pthread", *options, *sources, *flags, *libraries, "-o", program])


def made(lab, name, pattern, configure, make, result):
    """Builds both programs with a configure script and make."""
    for kind, flags in (("plain", ["-g"]), ("tsan", lab.flags["c"])):
        program = lab.at("programs", f"{name}.{kind}")
        if os.path.exists(program):
            continue
        tree = lab.at("build", f"{name}.{kind}")
        quiet(["rm", "-rf", tree])
        quiet(["cp", "-a", lab.source(pattern), tree])
        compile_flags = [flag for flag in flags if flag.startswith(("-g", "-f"))]
        link_flags = [flag for flag in flags if flag.startswith(("-L", "-W", "-l", "-fs"))]
        flags = {"CFLAGS": " ".join(["-O2", *compile_flags]), "LDFLAGS": " ".join(link_flags)}
        environment = dict(os.environ, FORCE_UNSAFE_CONFIGURE="1", **flags)
        if configure:
            quiet(["./configure", *configure], cwd=tree, env=environment)
        quiet(["make", "-j2", *make(flags)], cwd=tree, env=environment)
        quiet(["cp", os.path.join(tree, result), program])


def pigz(lab):
    zlib = lab.source("zlib-*")
    parts = "adler32 crc32 deflate inflate inffast inftrees trees zutil infback compress uncompr".split()
    sources = [os.path.join(lab.source("pigz-*"), part) for part in ("pigz.c", "yarn.c", "try.c")]
    sources += [os.path.join(zlib, f"{part}.c") for part in parts]
    compiled(lab, "pigz", sources, ["-DNOZOPFLI", f"-I{zlib}"], ["-lm"])
    return ["-p", "4", "-k", "-c", lab.at("text")]


def zstd(lab):
    tree = lab.source("zstd-*")
    sources = glob.glob(os.path.join(tree, "lib/*/*.c")) + glob.glob(os.path.join(tree, "programs/*.c"))
    sources = [source for source in sources if "/deprecated/" not in source and "/legacy/" not in source]
    compiled(lab, "zstd", sources, ["-DZSTD_MULTITHREAD", "-DZSTD_DISABLE_ASM", "-DZSTD_LEGACY_SUPPORT=0",
                                    "-DXXH_NAMESPACE=ZSTD_", f"-I{tree}/lib"], [])
    return ["-T4", "-B256KiB", "-c", "-q", lab.at("text")]


def xz(lab):
    made(lab, "xz", "xz-*", ["--disable-shared", "--disable-nls", "--disable-doc", "--disable-assembler"],
         lambda flags: [], "src/xz/xz")
    return ["-T4", "-0", "--block-size=256KiB", "-k", "-c", lab.at("text")]


def redis(lab):
    made(lab, "redis", "redis-*", [],
         lambda flags: ["MALLOC=libc", "OPTIMIZATION=-O2", f"REDIS_CFLAGS={flags['CFLAGS']}",
                        f"REDIS_LDFLAGS={flags['LDFLAGS']}", "redis-server", "redis-benchmark"], "src/redis-server")
    return ["--port", "0", "--unixsocket", "redis.sock", "--save", "", "--io-threads", "4",
            "--io-threads-do-reads", "yes", "--dir", "."]


def redis_load(lab, folder):
    """Its own benchmark, and then its end."""
    socket = os.path.join(folder, "redis.sock")
    benchmark = lab.at("build/redis.plain/src/redis-benchmark")
    for _ in range(600):
        if os.path.exists(socket):
            break
        subprocess.run(["sleep", "0.1"])
    subprocess.run([benchmark, "-s", socket, "-n", "400", "-c", "20", "-t", "set,get,incr,lpush", "-q"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([benchmark, "-s", socket, "-n", "1", "-c", "1", "-q", "shutdown", "nosave"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def sqlite(lab):
    tree = lab.at("build/sqlite")
    if not os.path.exists(os.path.join(tree, "sqlite3.c")):
        quiet(["rm", "-rf", tree])
        quiet(["cp", "-a", lab.source("sqlite3-*"), tree])
        quiet(["./configure", "--disable-tcl"], cwd=tree)
        quiet(["make", "sqlite3.c"], cwd=tree)
    compiled(lab, "sqlite", [os.path.join(tree, part) for part in ("test/threadtest3.c", "src/test_multiplex.c", "sqlite3.c")],
             [f"-I{tree}", f"-I{tree}/test", f"-I{tree}/src", "-DSQLITE_THREADSAFE=1", "-DSQLITE_ENABLE_UNLOCK_NOTIFY"], ["-ldl", "-lm"])
    return ["lookaside1"]


def x264(lab):
    made(lab, "x264", "x264-*", ["--disable-asm", "--disable-lavf", "--disable-swscale", "--disable-ffms",
                                 "--disable-gpac", "--disable-lsmash", "--disable-avs", "--disable-opencl"],
         lambda flags: ["x264"], "x264")
    return ["--threads", "4", "--preset", "ultrafast", "--input-res", "176x144", "-o", "/dev/null", lab.at("film.yuv")]


def sort(lab):
    # Generated headers come first, one after the other: their users do not declare the dependency.
    made(lab, "sort", "coreutils-*", ["--disable-nls"],
         lambda flags: ["-j1", "--eval=built: ; $(MAKE) $(BUILT_SOURCES)", "built", "src/sort"], "src/sort")
    return ["--parallel=4", "-S", "64M", lab.at("numbers")]


def go(lab):
    """Go programs cannot be instrumented: only the first engine is used."""
    program = lab.at("programs/go.plain")
    if not os.path.exists(program):
        root = run(["go", "env", "GOROOT"], capture_output=True).stdout.strip()
        quiet(["cp", os.path.join(root, "bin/gofmt"), program])
        quiet(["cp", "-r", os.path.join(root, "src/sort"), lab.at("go-tree")])
    return ["-l", lab.at("go-tree")]


def crate(lab, name, features, arguments):
    for kind in ("plain", "tsan"):
        program = lab.at("programs", f"{name}.{kind}")
        if os.path.exists(program):
            continue
        # With a target named, build scripts are not instrumented.
        command = ["cargo", "+nightly", "install", name, "--locked", "--root", lab.at("build", f"{name}.{kind}"),
                   "--target-dir", lab.at("build", f"{name}.{kind}.target"), "--target", "x86_64-unknown-linux-gnu", *features]
        # Cargo strips a release of debug information otherwise.
        flags = lab.flags["rust"] if kind == "tsan" else ["-g", "-Cstrip=none"]
        quiet(command, env=dict(os.environ, CARGO_ENCODED_RUSTFLAGS="\x1f".join(flags)))
        quiet(["cp", lab.at("build", f"{name}.{kind}", "bin", name), program])
        quiet(["rm", "-rf", lab.at("build", f"{name}.{kind}.target")])
    return arguments


def b3sum(lab):
    return crate(lab, "b3sum", ["--features", "pure"], ["--num-threads", "4", lab.at("film.yuv"), lab.at("text")])


def tokei(lab):
    return crate(lab, "tokei", [], [lab.at("tree")])


PROGRAMS = {of.__name__: of for of in (pigz, zstd, xz, redis, sqlite, x264, sort, go, b3sum, tokei)}
LOADS = {"redis": redis_load}
# Its tests take ten seconds each, at any speed.
OPTIONS = {"sqlite": ["--from", "1000", "--to", "2500"]}


def recording(lab, name, engine, arguments, turn):
    program = lab.at("programs", f"{name}.{'plain' if engine == 'qemu' else 'tsan'}")
    file = lab.at("recordings", f"{name}.{engine}.{turn}.trace")
    folder = lab.at("run")
    quiet(["rm", "-rf", folder, file])
    os.makedirs(folder)
    command = [lab.command, "record", "--engine", engine, *OPTIONS.get(name, []), "-o", file, "--", program,
               *arguments]
    with open(lab.at("recordings", f"{name}.{engine}.log"), "w") as log:
        running = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=log)
        if name in LOADS:
            LOADS[name](lab, folder)
        running.wait()
    return file


def shares(lab, program, file):
    """Returns each object's share of the total cost, and the number of accesses."""
    text = run([lab.command, "replay", file, "--machine", MACHINE, "--json", "-"], capture_output=True).stdout
    report = json.loads(text)
    costs = {}
    for its in report["objects"]:
        # The loader's writes to a program have no name either.
        is_named = its["kind"] in ("global", "heap") and not its["object"].startswith("data of ")
        if is_named and its["file"] in ("", program):
            costs[its["object"]] = costs.get(its["object"], 0) + its["cost_ns"]
    whole = max(sum(costs.values()), 1e-9)
    return {name: cost / whole for name, cost in costs.items()}, report["accesses"]


def first(found):
    return sorted(found, key=lambda name: (-found[name], name))[:FIRST]


def agree(one, other):
    """Returns how many of the first five are common to both, of how many, and whether these are in the same order."""
    a, b = first(one), first(other)
    both = [name for name in a if name in b]
    return len(both), max(len(a), len(b)), both == [name for name in b if name in a]


class Engine:
    """The results of several recordings of a program by one engine."""

    def __init__(self, recordings):
        self.recordings = recordings
        names = {name for its in recordings for name in its}
        self.median = {name: statistics.median(its.get(name, 0) for its in recordings) for name in names}

    def range(self, name):
        found = [its.get(name, 0) for its in self.recordings]
        return min(found), max(found)

    def above(self, one, other):
        """Whether one costs more than the other in all recordings: 1, -1, or 0 if their ranges overlap."""
        a, b = self.range(one), self.range(other)
        return 1 if a[0] > b[1] else -1 if b[0] > a[1] else 0

    def with_itself(self):
        pairs = [agree(one, other) for one, other in itertools.combinations(self.recordings, 2)]
        least, most = min(pair[0] for pair in pairs), max(pair[0] for pair in pairs)
        ordered = sum(pair[2] for pair in pairs)
        return f"{least if least == most else f'{least} to {most}'} of {pairs[0][1]}, {ordered} of {len(pairs)} in one order"

    def told(self, name):
        least, most = self.range(name)
        return f"{100 * self.median[name]:.1f} ({100 * least:.1f} to {100 * most:.1f}) %" if name in self.median else "–"


def apart(one, other):
    """Returns how many pairs of either's first five are apart in both engines, and how many of them are in the same order."""
    names = sorted(set(first(one.median)) | set(first(other.median)))
    both = [(one.above(*pair), other.above(*pair)) for pair in itertools.combinations(names, 2)]
    both = [pair for pair in both if all(pair)]
    return len(both), sum(a == b for a, b in both)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    lab = Lab(sys.argv[1], sys.argv[2])
    for name in ("programs", "build", "recordings"):
        os.makedirs(lab.at(name), exist_ok=True)
    lab.sources()
    lab.inputs()
    print(f"| program | million accesses, qemu | tsan | first {FIRST} of both | in one order | apart in both: in one order "
          "| qemu with itself | tsan with itself |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[3:] or PROGRAMS:
        arguments = PROGRAMS[name](lab)
        engines, accesses = {}, {}
        for engine in ["qemu"] if name == "go" else ["qemu", "tsan"]:
            recordings = []
            for turn in range(TURNS):
                file = recording(lab, name, engine, arguments, turn)
                program = lab.at("programs", f"{name}.{'plain' if engine == 'qemu' else 'tsan'}")
                found, accesses[engine] = shares(lab, program, file)
                recordings.append(found)
                os.remove(file)
            engines[engine] = Engine(recordings)
        qemu, tsan = engines["qemu"], engines.get("tsan")
        if tsan:
            both, of, is_ordered = agree(qemu.median, tsan.median)
            pairs, ordered = apart(qemu, tsan)
            across = f"{both} of {of} | {'yes' if is_ordered else 'no'} | {ordered} of {pairs}"
        else:
            across = "– | – | –"
        print(f"| {name} | {accesses['qemu'] / 1e6:.1f} | {accesses.get('tsan', 0) / 1e6:.1f} | {across} | {qemu.with_itself()} | "
              f"{tsan.with_itself() if tsan else '–'} |", flush=True)
        names = first(qemu.median) + [its for its in first(tsan.median if tsan else {}) if its not in first(qemu.median)]
        with open(lab.at("recordings", f"{name}.json"), "w") as out:
            json.dump({its: {engine: engines[engine].told(its) for engine in engines} for its in names}, out, indent=1)


if __name__ == "__main__":
    main()
