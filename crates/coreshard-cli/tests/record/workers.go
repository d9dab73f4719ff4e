// Two goroutines on separate threads that write neighbouring counters.
package main

import (
	"runtime"
	"sync"
)

type counter struct{ hits, misses uint64 }

func main() {
	counters := new([2]counter)
	var group sync.WaitGroup
	for worker := range counters {
		group.Add(1)
		go func() {
			runtime.LockOSThread()
			defer group.Done()
			for round := 0; round < 500000; round++ {
				counters[worker].hits++
			}
		}()
	}
	group.Wait()
}
