package registry

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/client/store"
	"berth/structs"
	"berth/test/kit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, dir string) (*Registry, *store.DB) {
	t.Helper()
	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return New(db, hclog.NewNullLogger()), db
}

func node(id, alloc string) *Instance {
	return &Instance{
		Kind:            structs.CSIKindNode,
		ID:              id,
		AllocID:         alloc,
		SocketPath:      "/run/" + alloc + "/csi.sock",
		Provider:        "p",
		Version:         "1",
		HostMountPath:   "/data/csi/v",
		PluginMountPath: "/local/csi",
	}
}

func allocsOf(list []*Instance) string {
	var ids []string
	for _, i := range list {
		ids = append(ids, i.AllocID)
	}
	return strings.Join(ids, " ")
}

func TestDuty_B10_AnotherDriverUnderOnePluginIDIsRejected(t *testing.T) {
	r, _ := open(t, t.TempDir())
	kit.Must(t, r.Register(node("ebs", "a1")))
	other := node("ebs", "a2")
	other.Provider = "q"
	for _, kind := range []structs.CSIKind{structs.CSIKindNode, structs.CSIKindController} {
		other.Kind = kind
		err := r.Register(other)
		if !errors.Is(err, ErrOtherDriver) || !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	other.FormerProvider = "p"
	kit.Must(t, r.Register(other)) // its vendor renamed the driver
	again := node("ebs", "a3")
	kit.Must(t, r.Register(again)) // an instance from before the rename
	other = node("other", "a2")
	other.Provider = "q"
	kit.Must(t, r.Register(other))
}

func TestRegistry_TheNewestInstanceServes(t *testing.T) {
	r, _ := open(t, t.TempDir())
	k := Key{structs.CSIKindNode, "ebs"}
	sub := r.Subscribe()
	defer sub.Close()
	steps := []struct {
		do     func() error
		serves string
		stack  string
		events int
	}{
		{func() error { return r.Register(node("ebs", "a")) }, "a", "a", 1},
		{func() error { return r.Register(node("ebs", "b")) }, "b", "b a", 1},
		{func() error { return r.Register(node("ebs", "c")) }, "c", "c b a", 1},
		{func() error { return r.Register(node("ebs", "b")) }, "c", "c b a", 0}, // keeps its place
		{func() error { return r.Deregister(k, "b") }, "c", "c a", 0},
		{func() error { return r.Deregister(k, "nobody") }, "c", "c a", 0},
		{func() error { return r.Deregister(Key{structs.CSIKindController, "ebs"}, "c") }, "c", "c a", 0},
		{func() error { return r.Deregister(k, "c") }, "a", "a", 1},
		{func() error { return r.Deregister(k, "a") }, "", "", 1},
		{func() error { return r.Deregister(k, "a") }, "", "", 0},
	}
	for i, s := range steps {
		kit.Must(t, s.do())
		if got := r.Get(k).allocOrEmpty(); got != s.serves {
			t.Errorf("step %d: %q serves, want %q", i, got, s.serves)
		}
		if got := allocsOf(r.Stack(k)); got != s.stack {
			t.Errorf("step %d: stack %q, want %q", i, got, s.stack)
		}
		events := sub.Take() // no waiting: the event is there when the call has returned
		if len(events) != s.events || s.events > 0 && events[0] != k {
			t.Errorf("step %d: events %v, want %d", i, events, s.events)
		}
	}
}

func TestRegistry_SurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	r, db := open(t, dir)
	kit.Must(t, r.Register(node("ebs", "a")))
	kit.Must(t, r.Register(node("ebs", "b")))
	kit.Must(t, r.Register(&Instance{
		Kind:       structs.CSIKindController,
		ID:         "ebs",
		AllocID:    "a",
		SocketPath: "/s",
	}))
	kit.Must(t, r.Register(node("nfs", "x")))
	kit.Must(t, r.Register(node("gone", "x")))
	kit.Must(t, r.Deregister(Key{structs.CSIKindNode, "gone"}, "x"))
	before := map[Key][]*Instance{}
	for _, k := range r.sortedKeys() {
		before[k] = r.Stack(k)
	}
	kit.Must(t, db.Close())

	again, _ := open(t, dir)
	after := map[Key][]*Instance{}
	for _, k := range again.sortedKeys() {
		after[k] = again.Stack(k)
	}
	if len(after) != 3 || !reflect.DeepEqual(before, after) {
		t.Errorf("restored %v\nwant %v", after, before)
	}
	if got := allocsOf(again.Serving()); got != "a b x" {
		t.Errorf("serving %q", got)
	}
	at := again.Get(Key{structs.CSIKindNode, "ebs"}).RegisteredAt
	kit.Must(t, again.Register(node("ebs", "b"))) // as its hook does after the restart
	if now := again.Get(Key{structs.CSIKindNode, "ebs"}).RegisteredAt; now != at {
		t.Error("the registration from before the restart was replaced")
	}
}

func TestRetain_DropsGoneAllocations(t *testing.T) {
	r, _ := open(t, t.TempDir())
	for _, a := range []string{"a", "b", "c"} {
		kit.Must(t, r.Register(node("ebs", a)))
	}
	kit.Must(t, r.Retain(func(a string) bool { return a == "b" }))
	if got := allocsOf(r.Stack(Key{structs.CSIKindNode, "ebs"})); got != "b" {
		t.Errorf("left: %q", got)
	}
}

func TestRecords_ABadOneHidesNoGoodOne(t *testing.T) {
	dir := t.TempDir()
	r, db := open(t, dir)
	kit.Must(t, r.Register(node("good", "a")))
	text := "no stack of instances"
	kit.Must(t, store.NewTable[string]("csi_registry").Put(db, store.Key("node", "bad"), &text))
	kit.Must(t, db.Close())
	again, _ := open(t, dir)
	if got := allocsOf(again.Serving()); got != "a" {
		t.Errorf("serving %q", got)
	}
}

func TestRegister_RejectsAnIncompleteInstance(t *testing.T) {
	r, _ := open(t, t.TempDir())
	for _, i := range []*Instance{{}, {Kind: structs.CSIKindNode, ID: "x", AllocID: "a"},
		{ID: "x", AllocID: "a", SocketPath: "/s"}} {
		if err := r.Register(i); !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%+v: %v", i, err)
		}
	}
}

func TestSubscription_ASlowReaderDelaysNoOther(t *testing.T) {
	r, _ := open(t, t.TempDir())
	kit.Must(t, r.Register(node("p", "first")))
	lazy, eager := r.Subscribe(), r.Subscribe()
	defer lazy.Close()
	defer eager.Close()
	const n = 50
	for i := range n {
		kit.Must(t, r.Register(node("p", fmt.Sprint(i))))
	}
	events := lazy.Take()
	if len(events) != n+1 {
		t.Fatalf("%d events, want %d", len(events), n+1)
	}
	for i, k := range events {
		if k != (Key{structs.CSIKindNode, "p"}) {
			t.Errorf("event %d is of another plugin: %+v", i, k)
		}
	}
	if got := len(eager.Take()); got != n+1 {
		t.Errorf("the other subscriber has %d events", got)
	}
	lazy.Close()
	kit.Must(t, r.Register(node("p", "after")))
	if got := lazy.Take(); len(got) != 0 {
		t.Errorf("events after Close: %v", got)
	}
}

func TestRegistry_ConcurrentChanges(t *testing.T) {
	r, db := open(t, t.TempDir())
	var wg sync.WaitGroup
	for a := range 8 {
		wg.Go(func() {
			for i := range 10 {
				id := fmt.Sprint("p", i%3)
				err := r.Register(node(id, fmt.Sprint(a)))
				if err != nil {
					t.Error(err)
				}
				if i%2 == 0 {
					err := r.Deregister(Key{structs.CSIKindNode, id}, fmt.Sprint(a))
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	restored := New(db, hclog.NewNullLogger())
	for _, k := range r.sortedKeys() {
		if a, b := allocsOf(r.Stack(k)), allocsOf(restored.Stack(k)); a != b {
			t.Errorf("%s: memory has %q, disk %q", k.ID, a, b)
		}
	}
}
