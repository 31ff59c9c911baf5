package control

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/server/control/loop"
	"berth/state"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
	"berth/test/oneserver"
)

// cloudWorld is the servers with the nodes and a cloud, on one goroutine: so two runs of one seed are equal.
// The state, the scheduler, the entries of plans and the calls of the controllers are real. The leader may be
// lost before and after each entry and each call.
type cloudWorld struct {
	*rand.Rand
	Deps
	t      *testing.T
	log    *oneserver.Log
	ctx    context.Context // of the leadership
	lose   context.CancelFunc
	cloud  *cloud
	agents map[string]*cloudAgent
	jobs   []string
	plan   *structs.Plan // that is made and not yet in the log; nil: none
	late   []cloudCall
	calm   bool // no fault happens any more
	kills  map[string]int
	steps  int

	keptForLost int // see keptVolumes

	history []string
	faults  int
}

// cloudCall is a call of a leader that was lost. It is at its node, which has not yet made it.
type cloudCall struct {
	node, volume string
	do           func() (any, error)
}

const cloudNodes = 12

func newCloudWorld(t *testing.T, seed uint64, pool int64) *cloudWorld {
	w := &cloudWorld{
		Rand:   rand.New(rand.NewPCG(seed, 1)),
		t:      t,
		log:    oneserver.NewLog(),
		agents: map[string]*cloudAgent{},
		kills:  map[string]int{},
	}
	w.cloud = newCloud(w, pool)
	w.Deps = Deps{
		Common: loop.Common{
			Store:    w.log.Store,
			Proposer: w,
			Nodes:    w,
			Logger:   hclog.NewNullLogger(),
		},
		Config: DefaultConfig(),
		Term:   1,
	}
	w.lead()
	w.calm = true // for the nodes and classes
	for i := range cloudNodes {
		w.addAgent(fmt.Sprint("n", i), cloudZones[i%len(cloudZones)])
	}
	w.addClass("fast", "disk", "ssd", storage.BindFirstConsumer, storage.ReclaimDelete)
	w.addClass("slow", "disk", "hdd", storage.BindFirstConsumer, storage.ReclaimRetain)
	w.addClass("near", "share", "ssd", storage.BindFirstConsumer, storage.ReclaimDelete, "a", "b")
	w.addClass("now", "share", "hdd", storage.BindImmediate, storage.ReclaimDelete)
	w.calm = false
	return w
}

func (w *cloudWorld) addClass(name, plugin, kind, binding, rule string, zones ...string) {
	c := &storage.VolumeClass{
		Name:        name,
		PluginID:    plugin,
		Parameters:  map[string]string{"type": kind},
		Binding:     binding,
		Reclaim:     rule,
		DeleteAfter: new(time.Minute),
	}
	for _, zone := range zones {
		c.AllowedTopologies = append(c.AllowedTopologies, inZone(zone))
	}
	_ = try(w, fsm.VolumeClassPut, &storage.ClassPutRequest{Class: c, WriteOptions: w.stamp("")})
}

func inZone(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

// lead begins a leadership. A plan of the one before is lost.
func (w *cloudWorld) lead() {
	w.ctx, w.lose = context.WithCancel(context.Background())
	w.plan = nil
}

// kill ends the leadership at a moment, in one of n cases.
func (w *cloudWorld) kill(n int, moment string) bool {
	if w.calm || w.IntN(n) > 0 {
		return false
	}
	w.kills[moment]++
	w.note("the leader is lost %s", moment)
	w.lose()
	w.lead()
	return true
}

// killOdds is the number of entries and of calls of which one loses the leader at a moment.
const killOdds = 40

// Propose implements fsm.Proposer.
func (w *cloudWorld) Propose(ctx context.Context, entry []byte) (uint64, any, error) {
	name := fsm.CommandOf(entry).Name
	if ctx.Err() != nil || w.kill(killOdds, "before the entry "+name) {
		return 0, nil, structs.Unavailablef("this server does not lead")
	}
	index, answer, err := w.log.Propose(ctx, entry)
	w.note("entry %d: %s: %v", index, name, answer)
	w.noteRows()
	if w.kill(killOdds, "after the entry "+name) {
		return 0, nil, structs.Timeoutf("the outcome is not known")
	}
	return index, answer, err
}

// try proposes an entry that a killed leader may lose.
func try[P any](w *cloudWorld, c fsm.Command[P], payload *P) error {
	_, err := fsm.Propose(w.ctx, w, c, payload)
	return err
}

// Call implements nodeconn.Caller. A call of a lost leader takes effect before the loss, later or never.
func (w *cloudWorld) Call(ctx context.Context, nodeID, method string, req, resp any) error {
	_, method, _ = strings.Cut(method, ".Controller")
	agent := w.agents[nodeID]
	if agent.down || w.kill(killOdds, "before the call "+method) {
		return structs.Unavailablef("node %s is not reachable", nodeID)
	}
	volume := volumeOfCall(req)
	w.finishLate(func(l cloudCall) bool { return l.volume == volume }) // a node orders the calls for a volume

	do := func() (any, error) { return w.cloud.serve(req) }
	if w.kill(killOdds, "during the call "+method) {
		w.late = append(w.late, cloudCall{nodeID, volume, do})
		return structs.Timeoutf("the outcome is not known")
	}
	answer, err := do()
	w.note("%s of %s at %s: %s, %v", method, volume, nodeID, answerText(answer), err)
	switch {
	case w.kill(killOdds, "after the call "+method):
		return ctx.Err()
	case !w.calm && w.IntN(killOdds) == 0:
		w.kills["answer lost"]++
		return structs.Timeoutf("the answer is lost")
	case err == nil:
		reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(answer).Elem())
	}
	return err
}

// answerText describes an answer of the cloud.
func answerText(answer any) string {
	switch a := answer.(type) {
	case *nodecalls.ClientCSICreateResponse:
		return a.ExternalID + a.Exhausted
	case *nodecalls.ClientCSIExpandResponse:
		return structs.FormatBytes(a.Capacity) + a.Exhausted
	}
	return "done"
}

// finishLate performs late calls.
func (w *cloudWorld) finishLate(which func(cloudCall) bool) {
	w.late = slices.DeleteFunc(w.late, func(l cloudCall) bool {
		if !which(l) {
			return false
		}
		answer, err := l.do()
		w.note("late, %s: %s, %v", l.volume, answerText(answer), err)
		return true
	})
}

func anyCall(cloudCall) bool { return true }

// volumeOfCall returns what a call names its volume by.
func volumeOfCall(req any) string {
	r := reflect.ValueOf(req).Elem()
	for _, name := range []string{"Name", "ExternalID"} {
		field := r.FieldByName(name)
		if field.IsValid() {
			return field.String()
		}
	}
	return ""
}

// pass lets a time pass. A late call takes effect within the time that the leader waits for it.
func (w *cloudWorld) pass(d time.Duration) {
	w.finishLate(anyCall)
	time.Sleep(d)
}

func (w *cloudWorld) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%d: ", w.steps)+fmt.Sprintf(format, args...))
}

// mostCloudFaults bounds the faults of a run that are shown.
const mostCloudFaults = 10

func (w *cloudWorld) fail(format string, args ...any) {
	w.t.Helper()
	w.faults++
	w.note("FAULT: "+format, args...)
	if w.faults <= mostCloudFaults {
		w.t.Errorf("step %d: "+format, append([]any{w.steps}, args...)...)
	}
}

// noteRows notes the allocations and the volumes that the last entry has changed, of the job of interest.
func (w *cloudWorld) noteRows() {
	job := os.Getenv("BERTH_TEST_JOB")
	if job == "" {
		return
	}
	tx := w.Store.Read()
	for a := range state.AllocsByJob(tx, structs.DefaultNamespace, job) {
		if a.ModifyIndex == w.log.Index() {
			w.note("allocation %s %s on %s: %s, %s, migrate %v", a.Name, structs.ShortID(a.ID), a.NodeID, a.DesiredStatus,
				a.ClientStatus, a.Migrate)
		}
	}
	for _, v := range w.volumesOf(job) {
		if v.ModifyIndex == w.log.Index() {
			w.note("volume %s: %s %s, %+v", v.ID, v.State, v.ExternalID, v.LastError)
		}
	}
}

// sortedAgents returns the agents by their nodes.
func (w *cloudWorld) sortedAgents() (all []*cloudAgent) {
	for _, id := range slices.Sorted(maps.Keys(w.agents)) {
		all = append(all, w.agents[id])
	}
	return all
}
