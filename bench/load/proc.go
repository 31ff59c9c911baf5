package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of CPU time in /proc on Linux.
const ticksPerSecond = 100

// cpuTime returns the CPU time of processes.
func cpuTime(pids string) (sum time.Duration) {
	for _, pid := range strings.Split(pids, ",") {
		sum += cpuOf(pid)
	}
	return sum
}

// cpuOf returns the user and system time of a process; 0 if it does not exist.
func cpuOf(pid string) time.Duration {
	ran, _ := scheduled(pid)
	return ran
}

// scheduled returns how long a process has run, and how long it has waited for a processor. The scheduler
// counts both for each thread in nanoseconds, and a Go program's threads do not end. Without these counts the
// function uses ticks.
func scheduled(pid string) (ran, waited time.Duration) {
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return 0, 0
	}
	if _, err := os.Stat("/proc/" + pid + "/schedstat"); err != nil {
		return ticksOf(pid), 0
	}
	for _, t := range threads {
		b, err := os.ReadFile("/proc/" + pid + "/task/" + t.Name() + "/schedstat")
		if err != nil {
			continue // it has ended
		}
		var one, other time.Duration
		if _, err := fmt.Sscan(string(b), &one, &other); err == nil {
			ran, waited = ran+one, waited+other
		}
	}
	return ran, waited
}

func ticksOf(pid string) (sum time.Duration) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+2:]))
	for _, f := range fields[11:13] { // user and system
		ticks, _ := strconv.Atoi(f)
		sum += time.Duration(ticks) * time.Second / ticksPerSecond
	}
	return sum
}

// memory returns the memory of the processes, as text.
func memory(pids string) string {
	var each []string
	for _, pid := range strings.Split(pids, ",") {
		if kb := procField(pid, "status", "VmRSS:"); kb > 0 {
			each = append(each, fmt.Sprintf("%dMB", kb/1024))
		}
	}
	return strings.Join(each, ",")
}

// residentOf returns the resident memory of a process in bytes.
func residentOf(pid string) int64 { return procField(pid, "status", "VmRSS:") * 1024 }

// diskOf counts the bytes that all processes wrote to the disk of a folder. The kernel's count for one
// process (write_bytes) has whole pages, up to 256 KB for an entry of 300 bytes.
func diskOf(dir string) (written int64) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return 0 // a file system without a disk
	}
	const sectors, size = 6, 512 // the field, and its unit
	if f := strings.Fields(string(b)); len(f) > sectors {
		written, _ = strconv.ParseInt(f[sectors], 10, 64)
	}
	return written * size
}

// procField returns the number after a name in a file of /proc/PID; 0 without it.
func procField(pid, file, name string) int64 {
	b, err := os.ReadFile("/proc/" + pid + "/" + file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// usage is the CPU usage of each server's process, and the disk usage of all of them.
type usage struct {
	cpu     []time.Duration
	written int64
}

// loadAverage returns the load average of the last minute; 0 if it is unknown.
func loadAverage() float64 {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}

// splitProcessors gives the first half of the processors to the servers and the rest to the load, so that
// more load does not slow the servers down. With one processor it divides nothing.
func splitProcessors() (servers, load *unix.CPUSet, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, nil, err
	}
	if all.Count() < 2 {
		return &all, &all, nil
	}
	servers = &unix.CPUSet{}
	load = &unix.CPUSet{}
	for cpu, given := 0, 0; given < all.Count(); cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		if given < all.Count()/2 {
			servers.Set(cpu)
		} else {
			load.Set(cpu)
		}
		given++
	}
	return servers, load, nil
}

// pinProcess restricts this process to processors.
func pinProcess(to *unix.CPUSet) error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(to.Count())
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.SchedSetaffinity(id, to); err != nil && err != unix.ESRCH {
			return err
		}
	}
	return nil
}

// runPinned restricts this thread, and the processes that it starts, to processors while do runs.
func runPinned(on *unix.CPUSet, do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, on); err != nil {
		return err
	}
	err := do()
	return errors.Join(err, unix.SchedSetaffinity(0, &before))
}
