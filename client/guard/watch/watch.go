// Package watch is the guard of a node: one process beside the agent, which ends what must not outlive the
// lease of the node. It needs neither the agent nor a server: a killed, frozen or hung agent makes no
// difference. The agent writes the orders (OrderFiles) and the end of the lease (LeaseFile), which the guard
// reads, and starts the guard.
//
// Its rules:
//
//   - It looks four times a second at CLOCK_BOOTTIME, because timers of Go stop while the machine sleeps.
//   - What is once due ends, also if the lease is renewed meanwhile: a mark says so, which the next guard
//     reads.
//   - It kills, waits until no process is left, records that, and then unmounts. It never detaches a
//     mount: an unmount that has ended has written what was not written yet.
//   - It does not wait for ever: an unmount or a process that does not end is recorded, and tried again.
//   - Until the order is gone it kills what starts, and unmounts what is mounted, for an allocation that has
//     ended.
//   - Guards of two agents may run at a time. Each step can be repeated.
package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
	"berth/internal/boottime"
	"berth/internal/process"
)

// poll is the time between two looks.
const poll = 250 * time.Millisecond

// guard is the state of the process.
type guard struct {
	files OrderFiles
	boot  string
	agent process.Ref
	self  process.Ref
	clock boottime.Clock
	until boottime.Instant // the end of the last known lease, 0 for none
	read  time.Time        // the change of the directory after which the orders were read

	watchdog  string // the device, "" for none
	dismissal chan os.Signal
	dismissed bool // by its agent, which has no orders any more

	mu     sync.Mutex
	orders map[string]*Order  // by allocation
	ending map[string]*ending // by allocation
	busy   map[string]bool    // mount points with an unmount under way

	// unmount unmounts everything at a path, and tries until the deadline. Tests have one that hangs.
	unmount func(path string, deadline time.Time) (reason string)
}

// Main is the guard. It returns the exit code.
func Main(given []string) int {
	mode, of, err := parse(given)
	if err == nil && mode == startMode {
		err = start(of)
	}
	if err != nil {
		logf("%v", err)
		return 1
	}
	if mode == startMode {
		return 0
	}

	g, err := newGuard(of)
	if err != nil {
		logf("%v", err)
		return 1
	}
	return g.run()
}

// start starts the guard as a process that is nobody's child, and does not wait for it.
func start(of Of) error {
	// The file of the program may have been replaced since the agent started. This is the program that runs.
	const program = "/proc/self/exe"
	// The arguments before Arg lead the program to executor.Main, so they stay.
	argv := []string{os.Args[0]}
	for _, a := range os.Args[1:] {
		if a == Arg {
			break
		}
		argv = append(argv, a)
	}

	argv = append(argv, args(runMode, of)...)
	p, err := os.StartProcess(program, argv, &os.ProcAttr{
		Dir: "/",
		Env: sandbox.RuntimeEnv(1),
		// The agent has opened the log of the guard as this output.
		Files: []*os.File{nil, os.Stdout, os.Stderr},
		Sys:   &unix.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting the guard: %w", err)
	}
	return p.Release()
}

// newGuard makes the state of the process, before its first look.
func newGuard(of Of) (*guard, error) {
	boot, err := process.BootID()
	if err != nil {
		return nil, err
	}

	self, err := process.SelfRef()
	if err != nil {
		return nil, err
	}
	return &guard{
		files:  of.Files,
		boot:   boot,
		agent:  of.Agent,
		self:   self,
		clock:  boottime.Now,
		orders: map[string]*Order{},
		ending: map[string]*ending{},
		busy:   map[string]bool{},

		watchdog:  of.Watchdog,
		dismissal: make(chan os.Signal, 1),
		unmount:   unmount,
	}, nil
}

// run looks until there is nothing more to guard, or a newer guard has taken over.
func (g *guard) run() int {
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE) // they are meant for the agent
	signal.Notify(g.dismissal, dismiss)
	_ = os.WriteFile("/proc/self/comm", []byte("berth-guard"), 0)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-999"), 0) // it needs a right that not all have
	enterOwnCgroup()

	// The record follows a look: an agent that finds it finds a beat, too.
	g.look()
	err := Record{Guard: g.self, Agent: g.agent}.write(g.files.Memory)
	if err != nil {
		logf("%v", err)
		return 1
	}

	endFeeds := g.feed()
	for !g.isReplaced() && !g.isIdle() {
		g.await(poll)
		g.look()
	}

	endFeeds()
	leaveOwnCgroup()
	return 0
}

// feed feeds the watchdog of the machine, if the node has one, until end is called.
func (g *guard) feed() (end func()) {
	if g.watchdog == "" {
		return func() {}
	}
	f := &feeder{g: g, path: g.watchdog, control: KernelWatchdog{}}
	stop := make(chan struct{})
	var feeding sync.WaitGroup
	feeding.Go(func() { f.run(stop) })
	return func() {
		close(stop)
		feeding.Wait()
	}
}

// await waits for the time of the next look, or until the agent dismisses the guard.
func (g *guard) await(pause time.Duration) {
	select {
	case <-g.dismissal:
		g.dismissed = true
	case <-time.After(pause):
	}
}

// look ends the allocations that are due now.
func (g *guard) look() {
	now := g.clock() // an order that comes later belongs to the next look
	g.readLease()
	err := g.readOrders()
	if err != nil {
		logf("reading the orders: %v", err)
	}

	marked, err := g.files.ListDue()
	if err != nil {
		logf("reading the marks: %v", err)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	for id, o := range g.orders {
		// Without a lease the end is 0, so the allocation is due at once.
		end := o.End(g.until)
		if now >= end || slices.Contains(marked, id) {
			g.begin(o, end)
		}
	}

	// The beat is from before the look, so that it ages while a look hangs.
	err = beat(g.files.Memory, now)
	if err != nil {
		logf("%v", err)
	}
}

// readLease reads the lease. While the file cannot be read the last lease counts.
func (g *guard) readLease() {
	l, err := ReadLease(filepath.Join(g.files.Memory, LeaseFileName), g.boot)
	switch {
	case err == nil:
		g.until = l.Until
	case errors.Is(err, ErrLeaseEnded):
		// Without a lease all that is ordered is due.
		g.until = 0
	default:
		logf("reading the lease: %v", err)
	}
}

// readOrders reads the orders anew if their directory has changed. The clock of files is coarse, so a change
// counts for a while.
func (g *guard) readOrders() error {
	const coarse = 2 * time.Second
	info, err := os.Stat(g.files.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil || info.ModTime().Equal(g.read) {
		return err
	}

	ids, err := g.files.List()
	if err != nil {
		return err
	}

	orders := map[string]*Order{}
	for _, id := range ids {
		o, err := g.files.Get(id)
		if err != nil {
			logf("%v", err)
			o = g.order(id) // as it was known
		}
		// An order of another boot has nothing left to end.
		if o != nil && o.BootID == g.boot {
			orders[id] = o
		}
	}

	g.mu.Lock()
	g.orders = orders
	g.mu.Unlock()

	// A later change may have the same time while the clock of files does not advance.
	if time.Since(info.ModTime()) > coarse {
		g.read = info.ModTime()
	}
	return nil
}

// order returns an order that is still there, nil for none.
func (g *guard) order(allocID string) *Order {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.orders[allocID]
}

// isReplaced reports whether a newer guard lives.
func (g *guard) isReplaced() bool {
	r, err := ReadRecord(g.files.Memory)
	if err != nil || r.Guard == g.self {
		return false
	}
	// A newer guard that has ended has left its record.
	alive, err := isAlive(r.Guard)
	return err == nil && alive
}

// isIdle reports whether the agent has ended, or has dismissed the guard, and nothing is left to guard.
func (g *guard) isIdle() bool {
	g.mu.Lock()
	orders := len(g.orders)
	g.mu.Unlock()

	if g.dismissed {
		return orders == 0
	}
	// The guard stays while it does not know.
	alive, err := isAlive(g.agent)
	return err == nil && !alive && orders == 0
}

func isAlive(r process.Ref) (bool, error) {
	fd, err := r.Open()
	if err != nil || fd < 0 {
		return false, err
	}

	// A process that has ended and waits for its parent can be opened, and is readable.
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	_ = unix.Close(fd)
	// The next look asks again.
	if errors.Is(err, unix.EINTR) {
		return true, nil
	}
	return err == nil && n == 0, err
}

func timeout(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), limit)
}

// logf writes a line to the log of the guard.
func logf(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	_, _ = fmt.Fprintf(os.Stderr, "%s guard: %s\n", time.Now().UTC().Format(time.RFC3339), line)
}
