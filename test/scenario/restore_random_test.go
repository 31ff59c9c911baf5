package scenario

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/keyring"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/cluster"
)

// restoreSeed returns a random seed, or the one that BERTH_TEST_SEED names.
func restoreSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("BERTH_TEST_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("BERTH_TEST_SEED: %v", err)
		}
	}
	t.Logf("BERTH_TEST_SEED=%d", seed)
	return seed
}

// TestRestore_ConvergesFromRandomHistories takes a snapshot, changes what runs on each node, returns to the
// snapshot, and continues. The storage fails the test at once if two nodes have a volume, if a node mounts a
// volume that is not attached, or if a volume is detached where it is mounted.
func TestRestore_ConvergesFromRandomHistories(t *testing.T) {
	for range 2 {
		seed := restoreSeed(t)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			h := newHistory(t, seed)
			h.makeChanges(6)
			h.awaitAgreement()
			for range 4 {
				h.makeChanges(h.IntN(3)) // the snapshot may be of a state that changes
				h.snapshot()
				h.makeChanges(5)
				if h.IntN(3) > 0 {
					h.reboot(h.busyNode(), h.restore)
				} else {
					h.restore()
				}
				h.makeChanges(2)
				h.awaitAgreement()
			}
		})
	}
}

const (
	historyNodes   = 3
	historyVolumes = 3
)

// history is a random sequence of events in a cluster.
type history struct {
	*storageCluster
	*rand.Rand
	nodes   []*cluster.Node
	away    map[*cluster.Node]bool
	wanted  map[string]bool // the jobs that are to run, each with a volume
	archive bytes.Buffer
	then    map[string]bool // wanted at the time of the snapshot
	began   time.Time
	log     []string
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		storageCluster: startStorageCluster(t, 3),
		Rand:           rand.New(rand.NewPCG(seed, 0)),
		began:          time.Now(),
		away:           map[*cluster.Node]bool{},
		wanted:         map[string]bool{},
	}
	for i := range historyNodes {
		h.joinNode(i)
	}
	for i := range historyVolumes {
		h.registerVolume(fmt.Sprintf("v%d", i))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history:\n%s\nthe storage: %v",
				strings.Join(h.log, "\n"), h.storage)
		}
	})
	return h
}

// nodeOptions gives the tasks of a node time to stop, on some nodes more than on others, so that volumes are
// in use meanwhile.
func (h *history) nodeOptions(i int) []cluster.NodeOption {
	lingers := time.Duration(i%3) * 150 * time.Millisecond
	return []cluster.NodeOption{cluster.WithPlugin(attaching), cluster.WithStopDelay(lingers)}
}

func (h *history) joinNode(i int) {
	h.nodes = append(h.nodes, h.AddNode(fmt.Sprintf("n%d", i), h.storage, h.nodeOptions(i)...))
}

// reboot takes the power from a node, which removes its mounts and its memory, calls meanwhile, and starts
// the node again. Its attached volumes stay attached.
func (h *history) reboot(n *cluster.Node, meanwhile func()) {
	if len(h.away) > 0 {
		h.healAll()
	}
	h.record("power off %s", n.Name)
	n.PowerOff()
	meanwhile()
	h.record("power on %s", n.Name)
	h.nodes[slices.Index(h.nodes, n)] = h.Revive(n,
		h.nodeOptions(slices.Index(h.nodes, n))...)
}

// busyNode returns a node on which something runs, or any node.
func (h *history) busyNode() *cluster.Node {
	first := h.IntN(len(h.nodes))
	for i := range h.nodes {
		if n := h.nodes[(first+i)%len(h.nodes)]; len(n.Running()) > 0 {
			return n
		}
	}
	return h.nodes[first]
}

func (h *history) record(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%.1fs ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

// makeChanges makes a number of changes. Before some of them it waits for the effect of the earlier ones.
func (h *history) makeChanges(count int) {
	h.t.Helper()
	for range count {
		i := h.IntN(historyVolumes)
		job := fmt.Sprintf("job%d", i)
		volume := fmt.Sprintf("v%d", i)
		n := h.nodes[h.IntN(len(h.nodes))]
		switch h.IntN(9) {
		case 0, 1:
			h.record("run %s", job)
			h.registerJob(job, 1, volume, rescheduleSoon)
			h.wanted[job] = true
		case 2:
			h.record("stop %s", job)
			if h.wanted[job] {
				h.stopJob(job)
			}
			delete(h.wanted, job)
		case 3:
			h.stopAllocs(job)
		case 4:
			h.endTask(n)
		case 5:
			h.cutOrHeal(n)
		case 6:
			if len(h.nodes) < historyNodes+2 {
				h.record("a node joins")
				h.joinNode(len(h.nodes))
			}
		case 7:
			h.reboot(n, func() {})
		default:
			h.record("pause")
			h.awaitJobs()
		}
	}
}

// rescheduleSoon sets a policy that replaces ended allocations almost at once.
func rescheduleSoon(j *structs.Job) {
	j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{
		Unlimited:     true,
		Delay:         50 * time.Millisecond,
		DelayFunction: "constant",
		MaxDelay:      time.Second,
	}
}

// stopAllocs stops the running allocations of a job. Their replacements may get another node.
func (h *history) stopAllocs(job string) {
	for _, a := range allocsOfJob(h.Leader().Store().Read(), job, isRunning) {
		h.record("move %s from %s", job, a.NodeName)
		_ = callOnce(h.storageCluster, structs.AllocStop,
			&structs.AllocStopRequest{AllocID: a.ID})
	}
}

func (h *history) endTask(n *cluster.Node) {
	if ids := n.Running(); len(ids) > 0 {
		h.record("a task ends on %s", n.Name)
		n.Finish(ids[0], structs.AllocFailed)
	}
}

// cutOrHeal partitions a node from the servers, or heals all partitions.
func (h *history) cutOrHeal(n *cluster.Node) {
	if len(h.away) > 0 {
		h.healAll()
		return
	}
	h.record("cut %s", n.Name)
	h.Net.Cut(n.Name, "s1", "s2", "s3")
	h.away[n] = true
}

func (h *history) healAll() {
	h.record("heal")
	h.Net.Heal()
	clear(h.away)
}

// awaitJobs waits until each wanted job runs, unless a node is partitioned.
func (h *history) awaitJobs() {
	h.t.Helper()
	if len(h.away) > 0 {
		return
	}
	for _, job := range slices.Sorted(maps.Keys(h.wanted)) {
		h.awaitRunning(job, 1)
	}
}

func (h *history) snapshot() {
	h.t.Helper()
	h.record("snapshot")
	h.archive.Reset()
	if err := h.Leader().Current().SnapshotSave(h.t.Context(), &h.archive); err != nil {
		h.t.Fatal(err)
	}
	h.then = maps.Clone(h.wanted)
}

func (h *history) restore() {
	h.t.Helper()
	h.record("restore")
	saved := h.archive.Bytes()
	h.AtLeader("restore", func(s *cluster.Server) error {
		err := s.Current().SnapshotRestore(h.t.Context(), bytes.NewReader(saved), keyring.RestoreKeys{})
		if structs.IsKind(err, structs.KindTimeout) { // a busy leader lost its lead meanwhile: repeat it
			err = structs.Unavailablef("%w", err)
		}
		return err
	})
	h.wanted = maps.Clone(h.then)
}

// awaitAgreement waits until rows, nodes and storage agree: every wanted allocation runs, every allocation
// shown as running runs, and nothing else is mounted or attached.
func (h *history) awaitAgreement() {
	h.t.Helper()
	h.healAll()
	what := ""
	defer func() {
		if h.t.Failed() {
			h.t.Log(what)
		}
	}()
	h.Await("rows, nodes and storage agree", func() bool {
		what = h.disagreement(h.Leader().Store().Read())
		return what == ""
	})
	h.record("settled")
}

func (h *history) disagreement(tx *state.ReadTx) string {
	if why := csi.Recovering(tx); why != "" {
		return why
	}
	var shown, works, rows []string
	for i := range historyVolumes {
		job := fmt.Sprintf("job%d", i)
		live := allocsOfJob(tx, job, isRunning)
		if want := h.wanted[job]; want != (len(live) == 1) {
			return fmt.Sprintf("%d allocations of %s run, wanted: %v", len(live), job, want)
		}
		for _, a := range live {
			shown = append(shown, a.NodeID+" "+a.ID)
		}
		for a := range csi.AttachmentsByVolume(tx, structs.DefaultNamespace, fmt.Sprintf("v%d", i)) {
			rows = append(rows, "disk-"+a.VolumeID+" "+state.Node(tx, a.NodeID).Name)
			if a.State != structs.AttachmentAttached {
				return fmt.Sprintf("%s is %s to %s: %+v",
					a.VolumeID, a.State, a.NodeID, a.LastError)
			}
		}
	}
	for _, n := range h.nodes {
		for _, id := range n.Running() {
			works = append(works, n.ID+" "+id)
		}
	}
	slices.Sort(shown)
	slices.Sort(works)
	slices.Sort(rows)
	attached := h.storage.Attached()
	if !slices.Equal(shown, works) ||
		!slices.Equal(rows, attached) || len(attached) != len(shown) {
		return fmt.Sprintf("shown running %v, running %v; attached by rows %v, at the storage %v",
			shown, works, rows, attached)
	}
	return ""
}
