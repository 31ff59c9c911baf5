package volumes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/internal/keyring"
	"berth/server/control/loop"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// healthWorld has a plugin that tells the health of volumes.
type healthWorld struct {
	world
	mu     sync.Mutex
	tokens []string // of the lists
	asked  []string // IDs of volumes that ControllerGetVolumeHealth was asked for
	stop   func()

	// list answers a page. Nil answers the volumes of ill on one page.
	list func(token string) (*nodecalls.ClientCSIListHealthResponse, error)
	ill  map[string]*storage.VolumeCondition
	get  func(id string) error // nil is a call that succeeds

	failing map[string]bool // nodes whose controllers answer no list
	mute    bool            // the answers for single volumes have no health
}

var (
	listing = &structs.CSIControllerInfo{SupportsListHealth: true, SupportsCondition: true}
	single  = &structs.CSIControllerInfo{SupportsCondition: true}
	listsIt = &structs.CSIControllerInfo{SupportsListHealth: true}
)

// virtualHealth runs a test in virtual time.
func virtualHealth(t *testing.T, has *structs.CSIControllerInfo, test func(w *healthWorld)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &healthWorld{
			world: newWorld(t),
			stop:  func() {},
			ill:   map[string]*storage.VolumeCondition{},
		}
		w.addNode("n0", "", has)
		defer func() { w.stop() }()
		test(w)
	})
}

// Call implements nodeconn.Caller.
func (w *healthWorld) Call(_ context.Context, node, _ string, req, resp any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch r := req.(type) {
	case *nodecalls.ClientCSIListHealthRequest:
		w.tokens = append(w.tokens, r.StartingToken)
		if w.failing[node] {
			return structs.Internalf("no page")
		}
		out := resp.(*nodecalls.ClientCSIListHealthResponse)
		if w.list != nil {
			page, err := w.list(r.StartingToken)
			if page != nil {
				*out = *page
			}
			return err
		}
		for id, c := range w.ill {
			out.Volumes = append(out.Volumes, listedHealth(id, c))
		}
		return nil
	case *nodecalls.ClientCSIGetHealthRequest:
		id := r.ExternalID[len("x-"):]
		w.asked = append(w.asked, id)
		if w.get != nil {
			if err := w.get(id); err != nil {
				return err
			}
		}
		c := w.ill[id]
		if c == nil {
			c = &storage.VolumeCondition{}
		}
		if w.mute {
			c = nil
		}
		resp.(*nodecalls.ClientCSIGetHealthResponse).Condition = c
		return nil
	}
	w.t.Errorf("call of %T", req)
	return nil
}

func listedHealth(id string, c *storage.VolumeCondition) *nodecalls.CSIListedHealth {
	return &nodecalls.CSIListedHealth{ExternalID: "x-" + id, Condition: c}
}

// slow is a condition of a volume.
func slow() *storage.VolumeCondition {
	return &storage.VolumeCondition{
		Abnormal: true,
		Message:  "DEGRADED Slow",
		Statuses: []*structs.CSIHealth{{Status: "DEGRADED", Reason: "Slow"}},
	}
}

// run starts the loop, and returns just before its first round.
func (w *healthWorld) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.loop().Run(ctx)
	}()
	w.stop = func() {
		cancel()
		<-ended
	}
	w.sleep(healthAfter - time.Second)
}

func (w *healthWorld) loop() HealthLoop {
	return HealthLoop{loop.Common{
		Store:    w.Store,
		Proposer: w,
		Nodes:    w,
		Keys:     &keyring.Ring{},
		Logger:   hclog.NewNullLogger(),
	}}
}

// sleep lets virtual time pass. The loop sees all that the test has set before, and the test what the loop
// has done: the lock orders them.
func (w *healthWorld) sleep(d time.Duration) {
	w.set(func() {})
	time.Sleep(d)
	synctest.Wait()
	w.set(func() {})
}

// set changes what the plugin answers.
func (w *healthWorld) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// next waits for the next round, and returns the number of its entries.
func (w *healthWorld) next() (entries int) {
	before := w.Len()
	w.sleep(healthInterval)
	return w.Len() - before
}

// want compares the volumes with a row.
func (w *healthWorld) want(when string, want ...string) {
	w.t.Helper()
	var got []string
	for h := range csi.HealthOfPlugin(w.Store.Read(), "p") {
		got = append(got, h.VolumeID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: rows of %q, want %q", when, got, want)
	}
}

// row returns the row of a volume.
func (w *healthWorld) row(id string) *storage.VolumeHealth {
	return csi.HealthOf(w.Store.Read(), volumeKey{Namespace: "default", VolumeID: id})
}

// rejected is an answer of the plugin with a code.
func rejected(kind structs.Kind, code string) error {
	return &structs.Error{Kind: kind, Code: code, Text: fmt.Sprint("rejected with ", code)}
}
