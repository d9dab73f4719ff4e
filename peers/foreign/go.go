// Go: an item is a goroutine. The same protocol, measuring and workloads as the Rust program's
// src/cell.rs, src/measure and src/workload, with what a Go programmer would use for the rest:
// goroutines as producers (Go knows no threads outside its scheduler), channels to wait for items.
package main

import (
	"bytes"
	"fmt"
	"math/bits"
	"os"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

var epoch = time.Now()

// nowNs tells nanoseconds of the monotonic clock; never 0.
func nowNs() uint64 { return uint64(time.Since(epoch)) + 1 }

//go:noinline
func spin(rounds uint64) uint64 {
	value := uint64(0x9e3779b97f4a7c15)
	for ; rounds > 0; rounds-- {
		value ^= value << 13
		value ^= value >> 7
		value ^= value << 17
	}
	return value
}

type usage struct{ cpuNs, voluntary, involuntary uint64 }

func usageNow() usage {
	var used syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	var cpu syscall.Timespec
	const processCPU = 2
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, processCPU, uintptr(unsafe.Pointer(&cpu)), 0); errno != 0 {
		check(errno)
	}
	return usage{uint64(cpu.Nano()), uint64(used.Nvcsw), uint64(used.Nivcsw)}
}

func (after usage) since(before usage) usage {
	return usage{after.cpuNs - before.cpuNs, after.voluntary - before.voluntary, after.involuntary - before.involuntary}
}

func statusField(name string) uint64 {
	text, err := os.ReadFile("/proc/self/status")
	check(err)
	for _, line := range bytes.Split(text, []byte("\n")) {
		if rest, found := bytes.CutPrefix(line, []byte(name+":")); found {
			value, _ := strconv.ParseUint(string(bytes.Fields(rest)[0]), 10, 64)
			return value
		}
	}
	return 0
}

func check(err error) {
	if err != nil {
		fail(err.Error())
	}
}

func fail(reason string) {
	fmt.Fprintln(os.Stderr, reason)
	os.Exit(1)
}

type cell map[string]string

func (c cell) number(key string) uint64 {
	value, err := strconv.ParseUint(c[key], 10, 64)
	if err != nil {
		fail(key + "= is missing or no whole number")
	}
	return value
}

func (c cell) rounds(ns uint64) uint64 {
	if ns == 0 {
		return 0
	}
	return max(1, c.number("rounds_per_ms")*ns/1_000_000)
}

func printSamples(name string, samples []uint64) {
	if len(samples) == 0 {
		return
	}
	slices.Sort(samples)
	var text strings.Builder
	text.WriteString(name)
	for at := 0; at < len(samples); {
		next := at
		for next < len(samples) && samples[next] == samples[at] {
			next++
		}
		fmt.Fprintf(&text, " %dx%d", samples[at], next-at)
		at = next
	}
	fmt.Println(text.String())
}

// printCalls prints call times less what it costs to look at the clock twice.
func printCalls(call []uint64) {
	costNs := ^uint64(0)
	for range 1000 {
		beforeNs := nowNs()
		costNs = min(costNs, nowNs()-beforeNs)
	}
	for at := range call {
		call[at] = between(costNs, call[at])
	}
	printSamples("call", call)
}

func printMeasured(items, elapsedNs uint64, used usage, call, endToEnd []uint64) {
	fmt.Printf("items %d\nelapsed_ns %d\ncpu_ns %d\ncontext_switches %d\n", items, elapsedNs, used.cpuNs, used.voluntary+used.involuntary)
	printCalls(call)
	printSamples("end_to_end", endToEnd)
}

func printFigure(name string, value float64) { fmt.Printf("figure %s %g\n", name, value) }

// allocationsIn counts what body allocates on the heap; a goroutine's own stack is not counted.
func allocationsIn(items uint64, body func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body()
	runtime.ReadMemStats(&after)
	fmt.Printf("allocations_per_item %g\n", float64(after.Mallocs-before.Mallocs)/float64(max(1, items)))
}

func endCell(note string) {
	if note != "" {
		fmt.Println("note", note)
	}
	fmt.Printf("peak_rss_bytes %d\nend\n", statusField("VmHWM")*1024)
	os.Exit(0)
}

type padded struct {
	_     [128]byte
	value atomic.Uint64
	_     [120]byte
}

// account is what the items of one producer share.
type account struct {
	done                       padded
	items, rounds, mask, value uint64
	endedNs                    []atomic.Uint64
	finished                   chan uint64
}

func (a *account) runItem(index uint64) {
	if a.rounds > 0 {
		spin(a.rounds)
	}
	if index&a.mask == a.value {
		a.endedNs[index/16].Store(nowNs())
	}
	if a.done.value.Add(1) == a.items {
		a.finished <- nowNs()
	}
}

func pass(producers, items, rounds uint64, sampled bool) (elapsedNs uint64, call, endToEnd []uint64) {
	each := max(1, items/producers)
	var mask, value, samples uint64 = 0, 1, 0
	if sampled {
		mask, value, samples = 15, 0, (each+15)/16
	}
	var together sync.WaitGroup
	together.Add(int(producers))
	var mutex sync.Mutex
	var producing sync.WaitGroup
	firstNs, lastNs := ^uint64(0), uint64(0)
	for range producers {
		producing.Go(func() {
			own := &account{items: each, rounds: rounds, mask: mask, value: value,
				endedNs: make([]atomic.Uint64, samples), finished: make(chan uint64, 1)}
			calls, sent := make([]uint64, 0, samples), make([]uint64, 0, samples)
			together.Done()
			together.Wait()
			startedNs := nowNs()
			for index := range each {
				if index&mask == value {
					beforeNs := nowNs()
					go own.runItem(index)
					calls = append(calls, nowNs()-beforeNs)
					sent = append(sent, beforeNs)
				} else {
					go own.runItem(index)
				}
			}
			finishedNs := <-own.finished
			mutex.Lock()
			defer mutex.Unlock()
			firstNs, lastNs = min(firstNs, startedNs), max(lastNs, finishedNs)
			call = append(call, calls...)
			for at, start := range sent {
				endToEnd = append(endToEnd, between(start, own.endedNs[at].Load()))
			}
		})
	}
	producing.Wait()
	return lastNs - firstNs, call, endToEnd
}

func between(start, end uint64) uint64 {
	if end < start {
		return 0
	}
	return end - start
}

func flood(c cell, producers uint64, note string) {
	items, rounds := c.number("items"), c.rounds(c.number("item_ns"))
	beforeThreads := statusField("Threads")
	pass(producers, items/10, rounds, false)
	before := usageNow()
	elapsedNs, _, _ := pass(producers, items, rounds, false)
	used := usageNow().since(before)
	threads := statusField("Threads") - beforeThreads
	_, call, endToEnd := pass(producers, items, rounds, true)
	printMeasured(items/producers*producers, elapsedNs, used, call, endToEnd)
	allocationsIn(items/10, func() { pass(producers, items/10, rounds, false) })
	if _, found := c["components"]; found {
		printFigure("threads", float64(threads))
	}
	endCell(note)
}

func pingPong(c cell) {
	producers := c.number("producers")
	each := max(1, c.number("items")/producers)
	round := func(items uint64) (elapsedNs uint64, call, trip []uint64) {
		var mutex sync.Mutex
		var producing sync.WaitGroup
		startedNs := nowNs()
		for range producers {
			producing.Go(func() {
				back := make(chan struct{}, 1)
				calls, trips := make([]uint64, 0, items), make([]uint64, 0, items)
				for range items {
					beforeNs := nowNs()
					go func() { back <- struct{}{} }()
					sentNs := nowNs()
					<-back
					calls, trips = append(calls, sentNs-beforeNs), append(trips, nowNs()-beforeNs)
				}
				mutex.Lock()
				defer mutex.Unlock()
				call, trip = append(call, calls...), append(trip, trips...)
			})
		}
		producing.Wait()
		return nowNs() - startedNs, call, trip
	}
	round(max(1, each/10))
	before := usageNow()
	elapsedNs, call, trip := round(each)
	used := usageNow().since(before)
	printMeasured(each*producers, elapsedNs, used, call, trip)
	allocationsIn(each/10*producers, func() { round(each / 10) })
	endCell("the producer is a goroutine: the item usually runs on its own CPU")
}

func burst(c cell) {
	const items = 64
	rounds := c.rounds(c.number("item_ns"))
	bursts := max(1, (c.number("items")+items-1)/items)
	var call, endToEnd []uint64
	oneBurst := func() (submitted, started [items]uint64) {
		var all sync.WaitGroup
		all.Add(items)
		for at := range items {
			submitted[at] = nowNs()
			go func() {
				started[at] = nowNs()
				spin(rounds)
				all.Done()
			}()
			call = append(call, nowNs()-submitted[at])
		}
		all.Wait()
		return
	}
	oneBurst()
	call = nil
	var total usage
	var first, last []float64
	var toLastNs uint64
	for range bursts {
		time.Sleep(10 * time.Millisecond)
		before := usageNow()
		submitted, started := oneBurst()
		used := usageNow().since(before)
		total.cpuNs += used.cpuNs
		total.voluntary += used.voluntary
		total.involuntary += used.involuntary
		for at := range items {
			endToEnd = append(endToEnd, between(submitted[at], started[at]))
		}
		lastNs := slices.Max(started[:]) - submitted[0]
		first = append(first, float64(slices.Min(started[:])-submitted[0]))
		last = append(last, float64(lastNs))
		toLastNs += lastNs
	}
	printMeasured(bursts*items, toLastNs, total, call, endToEnd)
	printFigure("first_start_ns", median(first))
	printFigure("last_start_ns", median(last))
	printFigure("waits_per_burst", float64(total.voluntary)/float64(bursts))
	printFigure("preemptions_per_burst", float64(total.involuntary)/float64(bursts))
	endCell("")
}

func median(values []float64) float64 {
	sort.Float64s(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

func waitForAll(ended []atomic.Uint64) {
	for at := range ended {
		for ended[at].Load() == 0 {
			time.Sleep(100 * time.Microsecond)
		}
	}
}

// paced hands in items by a period, and tells how long the calls and the items took.
func paced(count, periodNs, rounds uint64) (call, endToEnd []uint64) {
	ended := make([]atomic.Uint64, count)
	sent := make([]uint64, count)
	firstNs := nowNs()
	for at := range count {
		time.Sleep(time.Duration(int64(firstNs+(at+1)*periodNs) - int64(nowNs())))
		sent[at] = nowNs()
		go func() {
			spin(rounds)
			ended[at].Store(nowNs())
		}()
		call = append(call, nowNs()-sent[at])
	}
	waitForAll(ended)
	for at := range count {
		endToEnd = append(endToEnd, between(sent[at], ended[at].Load()))
	}
	return
}

func trickle(c cell) {
	items := c.number("items")
	paced(min(20, items), 1_000_000, 0)
	before := usageNow()
	call, endToEnd := paced(items, 1_000_000, 0)
	used := usageNow().since(before)
	time.Sleep(100 * time.Millisecond)
	before = usageNow()
	time.Sleep(400 * time.Millisecond)
	idle := usageNow().since(before)
	printMeasured(items, 0, used, call, endToEnd)
	printFigure("switches_per_item", float64(used.voluntary+used.involuntary)/float64(items))
	printFigure("idle_cpu_ns_per_sec", float64(idle.cpuNs)/0.4)
	endCell("idle CPU has the sleeping goroutine's own in it")
}

func blocking(c cell) {
	items := c.number("items")
	beforeThreads := statusField("Threads")
	var all sync.WaitGroup
	call, endToEnd := make([]uint64, items), make([]uint64, items)
	before := usageNow()
	startedNs := nowNs()
	for at := range items {
		beforeNs := nowNs()
		all.Go(func() {
			time.Sleep(50 * time.Millisecond)
			endToEnd[at] = nowNs() - beforeNs
		})
		call[at] = nowNs() - beforeNs
	}
	all.Wait()
	elapsedNs := nowNs() - startedNs
	used := usageNow().since(before)
	printMeasured(items, elapsedNs, used, call, endToEnd)
	printFigure("threads", float64(statusField("Threads")-beforeThreads))
	endCell("Go's sleep blocks no thread")
}

func mixed(c cell) {
	items, large := c.number("items"), c.number("large")
	smallRounds, largeRounds := c.rounds(1_000), c.rounds(500_000)
	var stop atomic.Bool
	var larges atomic.Uint64
	var feeders sync.WaitGroup
	before := usageNow()
	startedNs := nowNs()
	for range large {
		feeders.Go(func() {
			over := make(chan struct{}, 1)
			for !stop.Load() {
				go func() {
					spin(largeRounds)
					over <- struct{}{}
				}()
				<-over
				larges.Add(1)
			}
		})
	}
	call, endToEnd := paced(items, 200_000, smallRounds)
	stop.Store(true)
	feeders.Wait()
	elapsedNs := nowNs() - startedNs
	used := usageNow().since(before)
	fmt.Printf("items %d\nelapsed_ns 0\ncontext_switches %d\n", items, used.voluntary+used.involuntary)
	printCalls(call)
	printSamples("end_to_end", endToEnd)
	printFigure("large_per_sec", float64(larges.Load())*1e9/float64(elapsedNs))
	endCell("the small items' producer is a goroutine too, and waits for a CPU like them")
}

func fib(n uint64) uint64 {
	if n < 2 {
		return n
	}
	half := make(chan uint64, 1)
	go func() { half <- fib(n - 1) }()
	b := fib(n - 2)
	return <-half + b
}

func sumOfTree(levels, place uint64) uint64 {
	if levels == 1 {
		return place
	}
	half := make(chan uint64, 1)
	go func() { half <- sumOfTree(levels-1, place) }()
	b := sumOfTree(levels-1, place+1<<(levels-2))
	return <-half + b
}

func fibNumber(n uint64) (a uint64) {
	for b := uint64(1); n > 0; n-- {
		a, b = b, a+b
	}
	return a
}

func forkJoin(c cell) {
	_, isFib := c["fib"]
	size, calls, run := uint64(0), func(n uint64) uint64 { return 2*fibNumber(n+1) - 1 }, fib
	right := fibNumber
	if isFib {
		size = c.number("fib")
	} else {
		size = c.number("tree_levels")
		calls = func(levels uint64) uint64 { return 1<<levels - 1 }
		run = func(levels uint64) uint64 { return sumOfTree(levels, 0) }
		right = func(levels uint64) uint64 { leaves := uint64(1) << (levels - 1); return leaves * (leaves - 1) / 2 }
	}
	for calls(size) > max(3, c.number("items")) {
		size--
	}
	step := func(size uint64) {
		if sum := run(size); sum != right(size) {
			fail("summed up to " + strconv.FormatUint(sum, 10))
		}
	}
	smaller := max(6, size) - 5
	step(smaller)
	before := usageNow()
	startedNs := nowNs()
	step(size)
	elapsedNs := nowNs() - startedNs
	used := usageNow().since(before)
	printMeasured(calls(size), elapsedNs, used, nil, nil)
	allocationsIn(calls(smaller), func() { step(smaller) })
	endCell("a goroutine and a channel for each fork")
}

func parallelFor(c cell) {
	items, skewed := c.number("items"), c.number("skewed") != 0
	costs := make([]uint64, items)
	expected := items
	for at := range costs {
		costs[at] = 8
		if skewed && uint64(at) >= items/16*15 {
			costs[at] = 15 * 8
		}
		expected += costs[at]
	}
	forEach := func(body func(cost *uint64)) {
		var all sync.WaitGroup
		for chunk := range slices.Chunk(costs, max(1, (len(costs)+127)/128)) {
			all.Go(func() {
				for at := range chunk {
					body(&chunk[at])
				}
			})
		}
		all.Wait()
	}
	forEach(func(*uint64) {})
	before := usageNow()
	startedNs := nowNs()
	forEach(func(cost *uint64) {
		spin(*cost)
		*cost++
	})
	elapsedNs := nowNs() - startedNs
	used := usageNow().since(before)
	var sum uint64
	for _, cost := range costs {
		sum += cost
	}
	if sum != expected {
		fail("the elements add up to " + strconv.FormatUint(sum, 10))
	}
	printMeasured(items, elapsedNs, used, nil, nil)
	allocationsIn(items, func() { forEach(func(*uint64) {}) })
	endCell("the slice's 128 chunks are goroutines")
}

func tasks(c cell) {
	var run func(items uint64) uint64
	if _, found := c["spawn"]; found {
		run = func(items uint64) uint64 {
			results := make([]uint64, items)
			var all sync.WaitGroup
			for at := range items {
				all.Go(func() { results[at] = at })
			}
			all.Wait()
			return items
		}
	} else if _, found := c["yield"]; found {
		run = func(items uint64) uint64 {
			const tasks = 100
			each := max(1, items/tasks)
			var all sync.WaitGroup
			for range tasks {
				all.Go(func() {
					for range each {
						runtime.Gosched()
					}
				})
			}
			all.Wait()
			return each * tasks
		}
	} else {
		run = func(items uint64) uint64 {
			pairs := max(1, items/2)
			var all sync.WaitGroup
			for pair := range pairs {
				there, back := make(chan uint64, 1), make(chan uint64, 1)
				all.Go(func() {
					there <- pair
					<-back
				})
				all.Go(func() { back <- <-there })
			}
			all.Wait()
			return pairs * 2
		}
	}
	items := c.number("items")
	run(items / 10)
	before := usageNow()
	startedNs := nowNs()
	done := run(items)
	elapsedNs := nowNs() - startedNs
	used := usageNow().since(before)
	printMeasured(done, elapsedNs, used, nil, nil)
	allocationsIn(items/10, func() { run(items / 10) })
	endCell("goroutines")
}

func main() {
	c := cell{}
	for _, argument := range os.Args[1:] {
		key, value, found := strings.Cut(argument, "=")
		if !found {
			fail(argument + ": not key=value")
		}
		c[key] = value
	}
	if bits.UintSize != 64 {
		fail("needs 64 bits")
	}
	runtime.GOMAXPROCS(int(c.number("workers")))
	const inside = "the producers are goroutines: Go has no outside"
	switch c["workload"] {
	case "flood":
		flood(c, c.number("producers"), inside)
	case "many-pools":
		flood(c, c.number("components"), "one scheduler for all components; "+inside)
	case "ping-pong":
		pingPong(c)
	case "burst":
		burst(c)
	case "trickle":
		trickle(c)
	case "blocking":
		blocking(c)
	case "mixed":
		mixed(c)
	case "fork-join":
		forkJoin(c)
	case "parallel-for":
		parallelFor(c)
	case "async":
		tasks(c)
	default:
		fail("there is no workload " + c["workload"])
	}
}
