package csirandom

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/opsocket"
	"berth/rpc"
	"berth/server"
	"berth/server/control/fence"
	"berth/server/fencing"
	"berth/structs"
	"berth/test/cluster"
	"berth/test/csitrace"
)

func TestMain(m *testing.M) { cluster.Main(m) }

const pluginID = "disks"

// world is a cluster with its nodes, the record of all calls of its plugin, and the history of a run.
type world struct {
	*cluster.Cluster
	*rand.Rand // of the operations
	t          *testing.T
	dir        string
	logger     hclog.Logger
	trace      csitrace.Recorder
	faults     faults
	nodes      []*node
	background sync.WaitGroup // nodes that get their power back
	began      time.Time

	mu      sync.Mutex
	history []string
	done    map[string]int // operations that the servers have accepted, by name
	strays  []string       // volumes of the storage that an operator has left without a row
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	// A short path: the path of a unix socket has at most 107 bytes.
	dir, err := os.MkdirTemp("/tmp", "berth-csi")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{
		Rand:   rand.New(rand.NewPCG(seed, 1)),
		t:      t,
		dir:    dir,
		logger: hclog.NewNullLogger(),
		began:  time.Now(),
		done:   map[string]int{},
	}
	w.faults.dice = rand.New(rand.NewPCG(seed, 2))
	t.Cleanup(w.background.Wait) // after the servers, which fence nodes
	w.Cluster = cluster.New(t, 3, func(cfg *server.Config) {
		cfg.HeartbeatTTL = 2 * time.Second
		cfg.HeartbeatGrace = 4 * time.Second
		cfg.Fencers = fence.Devices{{Name: "switch", Scope: fencing.ScopePower, Agent: powerSwitch{w}}}
	})
	if level := os.Getenv("BERTH_TEST_LOG"); level != "" {
		w.logger = hclog.New(&hclog.LoggerOptions{Level: hclog.LevelFromString(level), Output: os.Stderr})
	}
	for i := range 3 {
		w.addNode(fmt.Sprintf("n%d", i+1))
	}
	w.putClass()
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// forsake records a volume of the storage that has no row any more, as an operator wanted it.
func (w *world) forsake(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strays = append(w.strays, id)
}

// maxHistory bounds the operations that a failed run shows.
const maxHistory = 300

func (w *world) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := fmt.Sprintf("%7.2fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.history = append(w.history, line)
	if len(w.history) > maxHistory {
		w.history = w.history[1:]
	}
}

func (w *world) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.history, "\n")
}

// request calls a method at a running server, as an operator does who waits for a bounded time.
func request[Req, Resp any](w *world, m structs.Method[Req, Resp], req *Req) (*Resp, error) {
	ctx, cancel := context.WithTimeout(opsocket.Mark(context.Background()), 5*time.Second)
	defer cancel()
	for _, s := range w.Servers {
		if s.Running() {
			return rpc.Call(ctx, s, m, req)
		}
	}
	return nil, structs.Unavailablef("no server runs")
}
