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

	"berth/state"
	"berth/structs"
	"berth/test/cluster"
)

// restoreSeed returns a random seed, or the one that BERTH_TEST_SEED names.
func restoreSeed(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("BERTH_TEST_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
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
			h.changes(6)
			h.settle()
			for range 4 {
				h.changes(h.IntN(3)) // the snapshot may be of a state that changes
				h.snapshot()
				h.changes(5)
				if h.IntN(3) > 0 {
					h.reboot(h.user(), h.restore)
				} else {
					h.restore()
				}
				h.changes(2)
				h.settle()
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
	*story
	*rand.Rand
	nodes   []*cluster.Node
	away    map[*cluster.Node]bool
	wanted  map[string]bool // jobs, each with a volume
	archive bytes.Buffer
	then    map[string]bool // jobs wanted when the snapshot was taken
	began   time.Time
	log     []string
}

func newHistory(t *testing.T, seed uint64) *history {
	h := &history{
		story:  begin(t, 3),
		Rand:   rand.New(rand.NewPCG(seed, 0)),
		began:  time.Now(),
		away:   map[*cluster.Node]bool{},
		wanted: map[string]bool{},
	}
	for i := range historyNodes {
		h.join(i)
	}
	for i := range historyVolumes {
		h.volume(fmt.Sprintf("v%d", i))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history:\n%s\nthe storage: %v",
				strings.Join(h.log, "\n"), h.storage)
		}
	})
	return h
}

// options gives the tasks of a node time to stop, on some nodes more than on others, so that volumes are in
// use meanwhile.
func (h *history) options(i int) []cluster.NodeOption {
	lingers := time.Duration(i%3) * 150 * time.Millisecond
	return []cluster.NodeOption{cluster.WithPlugin(attaching), cluster.WithLinger(lingers)}
}

func (h *history) join(i int) {
	h.nodes = append(h.nodes, h.AddNode(fmt.Sprintf("n%d", i), h.storage, h.options(i)...))
}

// reboot cuts a node's power, with its mounts and its memory, calls meanwhile, and brings the node back.
// Volumes that were attached to the node still are.
func (h *history) reboot(n *cluster.Node, meanwhile func()) {
	if len(h.away) > 0 {
		h.heal()
	}
	h.note("power off %s", n.Name)
	n.Off()
	meanwhile()
	h.note("power on %s", n.Name)
	h.nodes[slices.Index(h.nodes, n)] = h.Revive(n,
		h.options(slices.Index(h.nodes, n))...)
}

// user returns a node on which something runs, or any node.
func (h *history) user() *cluster.Node {
	first := h.IntN(len(h.nodes))
	for i := range h.nodes {
		if n := h.nodes[(first+i)%len(h.nodes)]; len(n.Running()) > 0 {
			return n
		}
	}
	return h.nodes[first]
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf("%.1fs ", time.Since(h.began).Seconds())+fmt.Sprintf(format, args...))
}

// changes makes so many changes, some at once and some after the ones before have taken effect.
func (h *history) changes(count int) {
	h.t.Helper()
	for range count {
		i := h.IntN(historyVolumes)
		job := fmt.Sprintf("job%d", i)
		volume := fmt.Sprintf("v%d", i)
		n := h.nodes[h.IntN(len(h.nodes))]
		switch h.IntN(9) {
		case 0, 1:
			h.note("run %s", job)
			h.job(job, 1, volume, soonAgain)
			h.wanted[job] = true
		case 2:
			h.note("stop %s", job)
			if h.wanted[job] {
				h.stop(job)
			}
			delete(h.wanted, job)
		case 3:
			h.move(job)
		case 4:
			h.endTask(n)
		case 5:
			h.cutOrHeal(n)
		case 6:
			if len(h.nodes) < historyNodes+2 {
				h.note("a node joins")
				h.join(len(h.nodes))
			}
		case 7:
			h.reboot(n, func() {})
		default:
			h.note("pause")
			h.running()
		}
	}
}

// soonAgain replaces ended allocations without the usual delay.
func soonAgain(j *structs.Job) {
	j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{
		Unlimited:     true,
		Delay:         50 * time.Millisecond,
		DelayFunction: "constant",
		MaxDelay:      time.Second,
	}
}

// move stops an allocation of a job where it is; it may get another node.
func (h *history) move(job string) {
	for _, a := range allocs(h.Leader().Store().Read(), job, running) {
		h.note("move %s from %s", job, a.NodeName)
		_ = ask(h.story, structs.AllocStop,
			&structs.AllocStopRequest{AllocID: a.ID})
	}
}

func (h *history) endTask(n *cluster.Node) {
	if ids := n.Running(); len(ids) > 0 {
		h.note("a task ends on %s", n.Name)
		n.Finish(ids[0], structs.AllocFailed)
	}
}

// cutOrHeal takes a node away from the servers, or brings back all that are away.
func (h *history) cutOrHeal(n *cluster.Node) {
	if len(h.away) > 0 {
		h.heal()
		return
	}
	h.note("cut %s", n.Name)
	h.Net.Cut(n.Name, "s1", "s2", "s3")
	h.away[n] = true
}

func (h *history) heal() {
	h.note("heal")
	h.Net.Heal()
	clear(h.away)
}

// running waits until each wanted job runs, unless a node is away.
func (h *history) running() {
	h.t.Helper()
	if len(h.away) > 0 {
		return
	}
	for _, job := range slices.Sorted(maps.Keys(h.wanted)) {
		h.runs(job, 1)
	}
}

func (h *history) snapshot() {
	h.t.Helper()
	h.note("snapshot")
	h.archive.Reset()
	if err := h.Leader().Now().SnapshotSave(h.t.Context(), &h.archive); err != nil {
		h.t.Fatal(err)
	}
	h.then = maps.Clone(h.wanted)
}

func (h *history) restore() {
	h.t.Helper()
	h.note("restore")
	saved := h.archive.Bytes()
	h.AtLeader("restore", func(s *cluster.Server) error {
		return s.Now().SnapshotRestore(h.t.Context(), bytes.NewReader(saved))
	})
	h.wanted = maps.Clone(h.then)
}

// settle waits until rows, nodes and storage agree: every wanted allocation runs, every allocation shown as
// running runs, and nothing else is mounted or attached.
func (h *history) settle() {
	h.t.Helper()
	h.heal()
	what := ""
	defer func() {
		if h.t.Failed() {
			h.t.Log(what)
		}
	}()
	h.Until("rows, nodes and storage agree", func() bool {
		what = h.disagreement(h.Leader().Store().Read())
		return what == ""
	})
	h.note("settled")
}

func (h *history) disagreement(tx *state.ReadTx) string {
	if why := state.Recovering(tx); why != "" {
		return why
	}
	var shown, works, rows []string
	for i := range historyVolumes {
		job := fmt.Sprintf("job%d", i)
		live := allocs(tx, job, running)
		if want := h.wanted[job]; want != (len(live) == 1) {
			return fmt.Sprintf("%d allocations of %s run, wanted: %v", len(live), job, want)
		}
		for _, a := range live {
			shown = append(shown, a.NodeID+" "+a.ID)
		}
		for a := range state.AttachmentsByVolume(tx, structs.DefaultNamespace, fmt.Sprintf("v%d", i)) {
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
