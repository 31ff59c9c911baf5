package csirandom

import (
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
	"berth/test/csitrace"
)

// The numbers of operations without the environment variable, and the seed. A fixed seed begins with the same
// operations each time, so a change of the product is compared with the run before it.
const (
	defaultOperations = 300
	shortOperations   = 100
	defaultSeed       = 1
)

// number returns the value of an environment variable, or a default.
func number(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestRandom_EachCallFollowsTheSpecification(t *testing.T) {
	seed := number(t, "BERTH_TEST_SEED", defaultSeed)
	usual := uint64(defaultOperations)
	if testing.Short() {
		usual = shortOperations
	}
	count := int(number(t, "BERTH_TEST_OPERATIONS", usual))
	t.Logf("BERTH_TEST_SEED=%d BERTH_TEST_OPERATIONS=%d", seed, count)
	w := newWorld(t, seed)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the history:\n%s\nunsettled attachments and claims:\n%s", w, w.unsettled())
		}
	})
	w.operate(count)
	w.checkTrace()
	w.finish()
	w.checkTrace()
	for _, left := range csitrace.Left(w.trace.Trace()) {
		t.Errorf("left: %s", left)
	}
	t.Logf("accepted operations: %v", w.done)
	t.Logf("calls: %v", w.outcomes())
}

// outcomes counts the calls of the RPCs with an effect by their outcomes.
func (w *world) outcomes() map[string]int {
	counts := map[string]int{}
	for _, c := range w.trace.Trace() {
		if faulty[c.RPC] {
			counts[c.RPC+" "+c.Code]++
		}
	}
	return counts
}

// inFlight is the number of operations at once, and leaderEvery the operations between two kills of the
// leader.
const (
	inFlight    = 4
	leaderEvery = 150
)

// operate performs random operations, several at a time.
func (w *world) operate(count int) {
	var all sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for i := range count {
		if i%leaderEvery == leaderEvery-1 {
			w.killLeader()
		}
		o := w.draw()
		do := o.do(w)
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := do()
			w.record("%d %s: %v", i, o.name, err)
			w.count(o.name, err)
		})
		w.awaitCall()
	}
	all.Wait()
}

// count counts an accepted operation. An internal error that was not drawn is a fault of the servers.
func (w *world) count(name string, err error) {
	internal := structs.IsKind(err, structs.KindInternal) && err != errNothing
	if internal && !strings.Contains(err.Error(), drawnText) {
		w.t.Errorf("%s: %v", name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.done[name]++
	}
}

// pace is the longest time between the begins of two operations.
const pace = 20 * time.Millisecond

// awaitCall waits for the next call of the plugin, so that the operations meet calls in every state.
func (w *world) awaitCall() {
	select {
	case <-w.trace.Next():
	case <-time.After(pace):
	}
}

// checkTrace fails the test for each call that breaks a rule, up to a bound.
func (w *world) checkTrace() {
	w.t.Helper()
	broken := csitrace.Check(w.trace.Trace())
	for _, f := range broken[:min(len(broken), 20)] {
		w.t.Error(f)
	}
	if len(broken) > 0 {
		w.t.Fatalf("%d calls break a rule", len(broken))
	}
}

// finish ends all faults and cuts, stops all jobs, and deletes everything. The storage has to be empty then.
func (w *world) finish() {
	w.faults.ended.Store(true)
	w.Net.Heal()
	w.record("the end")
	for _, id := range allJobs() {
		req := &structs.JobDeregisterRequest{JobID: id, Purge: true}
		err := w.again(func() error {
			_, err := request(w, structs.JobDeregister, req)
			return err
		})
		if err != nil && !structs.IsKind(err, structs.KindNotFound) {
			w.t.Errorf("stopping %s: %v", id, err)
		}
	}
	w.Await("no claim is left", func() bool {
		tx := w.Leader().Store().Read()
		w.retryParked(tx)
		for range csi.ClaimsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
			return false
		}
		return true
	})
	w.Await("no volume and no snapshot is left", func() bool {
		tx := w.Leader().Store().Read()
		w.retryParked(tx)
		return w.removeRest(tx)
	})
	storage := w.nodes[0].plugin
	left := slices.DeleteFunc(storage.Volumes(), func(id string) bool { return slices.Contains(w.strays, id) })
	if snapshots := storage.Snapshots(); len(left)+len(snapshots) > 0 {
		w.t.Errorf("the storage still has the volumes %v and the snapshots %v", left, snapshots)
	}
}

// unsettled describes the attachments for which the servers have a call to make, the claims with their
// allocations, and the nodes.
func (w *world) unsettled() string {
	var b strings.Builder
	for _, s := range w.Servers {
		if s.Leads() {
			describe(&b, s.Store().Read())
		}
	}
	for _, n := range w.nodes {
		if !n.mu.TryLock() {
			fmt.Fprintf(&b, "node %s is being stopped or started; all goroutines:\n", n.name)
			_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // it never fails
			continue
		}
		fmt.Fprintf(&b, "node %s: ID %.8s, off: %t, boots: %d\n", n.name, n.id, n.off, n.boots)
		n.mu.Unlock()
	}
	return b.String()
}

func describe(b *strings.Builder, tx *state.ReadTx) {
	for a := range csi.UnsettledAttachments(tx) {
		fmt.Fprintf(b, "%s of volume %s to node %s: call %+v, error %+v\n",
			a.State, a.VolumeID, a.ExternalNodeID, a.Call, a.LastError)
	}
	for c := range csi.ClaimsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		fmt.Fprintf(b, "claim of volume %s: %+v, its release: %+v\n", c.VolumeID, c, c.ReleaseError)
		a := state.Alloc(tx, c.AllocID)
		if a == nil {
			continue
		}
		n := state.Node(tx, a.NodeID)
		fmt.Fprintf(b, "  its allocation is %s/%s (%s, %s) on node %s, which is %s, lost: %t\n", a.DesiredStatus,
			a.ClientStatus, a.DesiredDescription, a.ClientDescription, n.Name, n.Status, n.Lost())
	}
}

// allJobs returns the IDs of the jobs of a run.
func allJobs() (ids []string) {
	for v := range volumeCount {
		for j := range jobsOfVolume {
			ids = append(ids, fmt.Sprintf("j%d-v%d", j, v))
		}
	}
	for a := range askingJobs {
		ids = append(ids, fmt.Sprintf("a%d", a))
	}
	return ids
}

// removeRest requests the deletion of each volume and snapshot that has none, and reports whether none is
// left. It is called again after a change of what it reads, so it reads the attachments first: a volume that
// is being detached cannot be deleted yet.
func (w *world) removeRest(tx *state.ReadTx) (empty bool) {
	for range csi.UnsettledAttachments(tx) {
		return false
	}
	empty = true
	for v := range csi.VolumesFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		empty = false
		if v.State != structs.VolumeDeleting {
			_, err := request(w, structs.CSIVolumeDelete, &structs.CSIVolumeDeleteRequest{ID: v.ID, AtOnce: true})
			w.record("delete volume %s: %v", v.ID, err)
		}
	}
	w.removeGroups(tx)
	for s := range schema.Snapshots.Scan(tx) {
		empty = false
		if s.State != storage.SnapshotDeleting && s.Group == "" {
			_, err := request(w, storage.SnapshotDelete, &storage.SnapshotDeleteRequest{SnapshotName: s.Name})
			w.record("delete snapshot %s: %v", s.Name, err)
		}
	}
	return empty
}
