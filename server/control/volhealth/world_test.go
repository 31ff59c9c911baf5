package volhealth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/state"
	"berth/state/csi/health"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a log of one server, with a plugin "p" that tells the health of volumes. The plugin knows each
// volume by its ID with "x-" before it.
type world struct {
	t       *testing.T
	store   *state.Store
	fsm     *fsm.FSM
	mu      sync.Mutex
	index   uint64
	entries int
	tokens  []string // of the lists
	asked   []string // IDs of volumes that ControllerGetVolumeHealth was asked for
	stop    func()

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

// virtual runs a test in virtual time.
func virtual(t *testing.T, has *structs.CSIControllerInfo, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		w := &world{
			t: t, store: store, fsm: fsm.New(store), index: 100, stop: func() {},
			ill: map[string]*storage.VolumeCondition{},
		}
		w.addNode("n0", "", has)
		defer func() { w.stop() }()
		test(w)
	})
}

// addNode adds a node with a controller, which is in a zone unless that is "".
func (w *world) addNode(id, zone string, has *structs.CSIControllerInfo) {
	info := structs.CSIInfo{PluginID: "p", Provider: "p.csi", Healthy: true, RequiresControllerPlugin: true}
	half := &structs.CSIPluginInstance{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: info}
	half.NodeInfo = &structs.CSINodeInfo{ID: "ext-" + id}
	if zone != "" {
		half.NodeInfo.AccessibleTopology = inZone(zone)
	}
	controller := &structs.CSIPluginInstance{Kind: structs.CSIKindController, NodeID: id, CSIInfo: info}
	controller.ControllerInfo = has
	put(w, fsm.NodeRegister, &structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, SecretID: "s", Name: id, Status: structs.NodeReady},
		CSI:  []*structs.CSIPluginInstance{controller, half},
	})
}

func inZone(zone string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"zone": zone}}
}

// Propose implements fsm.Proposer.
func (w *world) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index++
	w.entries++
	return w.index, w.fsm.Apply(&raft.Log{Index: w.index, Type: raft.LogCommand, Data: entry}), nil
}

// Call implements nodeconn.Caller.
func (w *world) Call(_ context.Context, node, _ string, req, resp any) error {
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
			out.Volumes = append(out.Volumes, listed(id, c))
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

func listed(id string, c *storage.VolumeCondition) *nodecalls.CSIListedHealth {
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

func put[P any](w *world, c fsm.Command[P], p *P) {
	w.t.Helper()
	_, err := fsm.Propose(context.Background(), w, c, p)
	if err != nil {
		w.t.Fatal(err)
	}
}

// addVolume registers a ready volume.
func (w *world) addVolume(id string, zones ...string) {
	v := &structs.CSIVolume{
		ID: id, PluginID: "p", ExternalID: "x-" + id, State: structs.VolumeReady,
		RequestedCapabilities: []*structs.CSIVolumeCapability{{
			AccessMode: structs.CSIMultiNodeMultipleWriter, AttachmentMode: structs.CSIFileSystem,
		}},
	}
	for _, z := range zones {
		v.Topologies = append(v.Topologies, inZone(z))
	}
	put(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
}

// run starts the loop, and returns just before its first round.
func (w *world) run() {
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
	w.sleep(firstAfter - time.Second)
}

func (w *world) loop() Loop { return Loop{w.store, w, w, &keyring.Ring{}, hclog.NewNullLogger()} }

// sleep lets virtual time pass.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// set changes what the plugin answers.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// next waits for the next round, and returns the number of its entries.
func (w *world) next() (entries int) {
	before := w.count()
	w.sleep(interval)
	return w.count() - before
}

// count returns the number of the entries so far.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries
}

// want compares the volumes with a row.
func (w *world) want(when string, want ...string) {
	w.t.Helper()
	var got []string
	for h := range health.OfPlugin(w.store.Read(), "p") {
		got = append(got, h.VolumeID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: rows of %q, want %q", when, got, want)
	}
}

// row returns the row of a volume.
func (w *world) row(id string) *storage.VolumeHealth {
	return health.Of(w.store.Read(), key{Namespace: "default", VolumeID: id})
}

// rejected is an answer of the plugin with a code.
func rejected(kind structs.Kind, code string) error {
	return &structs.Error{Kind: kind, Code: code, Text: fmt.Sprint("rejected with ", code)}
}
