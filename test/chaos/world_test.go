package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/guarantees"
	"berth/test/stepclock"
)

// world is a run: the members, what happens to them, and what was found.
type world struct {
	*settings
	servers, nodes []*member
	all            []*member
	jobs           []*job
	operated       []*job // those that operators run, change and stop
	cuts           cuts
	device         *device
	access         *clusterAccess
	journal        *journal
	faults         atomic.Int32 // that last
	operations     atomic.Int32
	faulted        atomic.Int32 // of the operations, those during a fault

	// They hold a token for each fault that lasts.
	disturbedNodes, disturbedServers chan struct{}

	log        io.Writer
	nodeCount  int
	heartbeats string     // settings of the servers
	phase      *rand.Rand // of the runs of a figure

	mu         sync.Mutex
	violations int
	// Allocations that guards have ended, and those of them whose node was well beside a leader.
	leaseEnds, needlessEnds int
	began                   time.Time
}

// runWorld is the whole run. It is pid 1 of its namespaces.
func runWorld(args []string) int {
	w := &world{
		settings:         parseSettings(args),
		cuts:             cuts{counts: map[[2]*member]int{}},
		disturbedNodes:   make(chan struct{}, 2),
		disturbedServers: make(chan struct{}, 1),
		began:            time.Now(),
		log:              os.Stdout,
		nodeCount:        4,
	}
	if w.figure != "" {
		return w.runFigure()
	}
	w.makeJobs()
	w.heartbeats = shortHeartbeats
	w.note("seed %d, %.1f minutes with faults", w.seed, w.minutes)
	if err := w.prepare(); err != nil {
		fmt.Println("chaos: preparing:", err)
		return 1
	}
	if err := w.begin(); err != nil {
		fmt.Println("chaos: the cluster does not begin:", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(w.minutes*float64(time.Minute)))
	defer cancel()
	var parts sync.WaitGroup
	for _, part := range []func(context.Context){w.disturb, w.watch, w.knock} {
		parts.Go(func() { part(ctx) })
	}
	for number := range operators {
		parts.Go(func() { w.operate(ctx, number) })
	}
	parts.Wait()
	w.calmDown()
	w.checkEnd()
	fmt.Printf("operations: %d, faulted: %d\nallocations that a lease ended: %d, needlessly: %d\nviolations: %d\n",
		w.operations.Load(), w.faulted.Load(), w.leaseEnds, w.needlessEnds, w.violations)
	return min(w.violations, 1)
}

// note logs a line with the seconds since the begin of the run.
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = fmt.Fprintf(w.log, "%7.1f %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// harness is the name of a fault of the run itself, which is no guarantee of the product.
const harness guarantees.Property = "harness"

// violate logs the violation of a guarantee.
func (w *world) violate(guarantee guarantees.Property, format string, args ...any) {
	w.note("VIOLATION of %s: %s", guarantee, fmt.Sprintf(format, args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations++
}

// shelf is the directory of the plugin.
func (w *world) shelf() string { return filepath.Join(w.dir, "shelf") }

// machine is the link to the mount table of a member, for the plugin.
func (w *world) machine(m *member) string { return filepath.Join(w.shelf(), "machines", m.name) }

// prepare makes everything but the processes.
func (w *world) prepare() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
	}{{"", "/", "", unix.MS_REC | unix.MS_PRIVATE}, {"proc", "/proc", "proc", 0}} {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	proc := filepath.Join(w.shelf(), "proc")
	for _, dir := range []string{proc, filepath.Join(w.shelf(), "machines"), filepath.Join(w.shelf(), "hold")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := unix.Mount("/proc", proc, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := routeAll(); err != nil {
		return err
	}
	if err := w.prepareBackEnd(w.volumes()); err != nil {
		return err
	}
	if err := errors.Join(w.prepareDevice(), w.prepareAccess()); err != nil {
		return err
	}
	for i := range 3 {
		w.servers = append(w.servers, w.newMember(fmt.Sprint("s", i), i+1, true))
	}
	for i := range w.nodeCount {
		w.nodes = append(w.nodes, w.newMember(fmt.Sprint("n", i), i+11, false))
	}
	w.all = append(append(w.all, w.servers...), w.nodes...)
	if w.stepped {
		w.drawClocks()
	}
	for _, m := range w.all {
		if err := errors.Join(m.certify(), m.prepare()); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) newMember(name string, number int, server bool) *member {
	m := &member{
		w:      w,
		name:   name,
		number: number,
		server: server,
		addr:   fmt.Sprint("10.77.0.", number),
		dir:    filepath.Join(w.dir, name),
		busy:   make(chan struct{}, 1),
	}
	m.client = m.connectWith(w.access.operator, w.access.secret)
	return m
}

// addrs lists the addresses of the servers, with a port.
func (w *world) addrs(port string) string {
	var all []string
	for _, s := range w.servers {
		all = append(all, s.addr+port)
	}
	return strings.Join(all, ",")
}

// diskSize is that of the disks of the members, a file system in memory. A server reserves 64 MB for its log.
const diskSize = "size=512m"

// prepare makes the disk and the configuration of a member.
func (m *member) prepare() error {
	if err := os.MkdirAll(m.path("data"), 0o755); err != nil {
		return err
	}
	id := fmt.Sprintf("%032x\n", m.hardware())
	if err := os.WriteFile(m.path("machine-id"), []byte(id), 0o444); err != nil {
		return err
	}
	if err := stepclock.Set(m.path("clock"), m.clock); err != nil {
		return err
	}
	if err := unix.Mount("disk", m.path("data"), "tmpfs", 0, diskSize); err != nil {
		return err
	}
	config := m.path("agent.hcl")
	m.args = []string{m.w.program, "agent", "-data-dir", m.path("data", "berth"), "-bind", m.addr,
		"-name", m.name, "-config", config}
	text := nodeConfig(m)
	if m.server {
		text = serverConfig(m)
		m.args = append(m.args, "-server", "-bootstrap-expect", "3", "-retry-join", m.w.addrs(":4748"))
	} else {
		m.args = append(m.args, "-client", "-servers", m.w.addrs(":4747"))
	}
	return os.WriteFile(config, []byte(text), 0o600)
}

// shortHeartbeats are a short lease and the shortest grace that guards allow.
const shortHeartbeats = `
  heartbeat_ttl           = "5s"
  heartbeat_grace         = "10s"
`

// serverConfig has snapshots in a short run.
func serverConfig(m *member) string {
	return fmt.Sprintf(`
consul {
  address = ""
}
%sautopilot {
  server_stabilization_time = "1s"
}
server {%s
  encrypt = %q
  keyring {
    file = %q
  }
  retry_interval          = "1s"
  raft_snapshot_threshold = 300
  raft_trailing_logs      = 200
  default_scheduler_config {
    scheduler_algorithm = "spread"
  }
  fencing "power" {
    agent   = %q
    timeout = "10s"
  }
}
`, m.accessConfig(), m.w.heartbeats, m.w.access.gossip, m.etc("keyring"), m.w.device.agent)
}

func nodeConfig(m *member) string {
	return fmt.Sprintf(`
consul {
  address = ""
}
%sclient {
  gc_max_allocs = 10
  host_volume "backend" {
    path = %[2]q
  }
  drivers {
    raw_exec {
      enabled       = true
      cgroup_parent = %[3]q
    }
    exec {
      cgroup_parent = %[3]q
    }
  }
}
`, m.accessConfig(), filepath.Join(m.w.dir, "backend"), m.cgroup())
}

// draws returns the choices of one part of a run: each has its own, so that they do not depend on the others.
func (w *world) draws(part uint64) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, part))
}
