package state

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"berth/structs"
)

// lookouts are readers that wait, by name, each once.
type lookouts struct {
	store *Store
	wg    sync.WaitGroup
	mu    sync.Mutex
	woken []string
}

func (l *lookouts) post(ctx context.Context, name string, look func(*ReadTx)) {
	tx := l.store.ReadWatched()
	look(tx)
	l.wg.Go(func() {
		if l.store.Wait(ctx, tx) != nil {
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.woken = append(l.woken, name)
	})
}

// took returns the names of the woken queries when nothing changes any more.
func (l *lookouts) took() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.woken)
	names := strings.Join(l.woken, " ")
	l.woken = nil
	return names
}

func aNodeWithPlugin(id, plugin string) *structs.NodeRegisterRequest {
	return &structs.NodeRegisterRequest{Node: &structs.Node{ID: id, SecretID: "s", Name: id,
		Status: structs.NodeReady}, CSI: []*structs.CSIPluginInstance{
		{Kind: structs.CSIKindNode, NodeID: id, CSIInfo: structs.CSIInfo{PluginID: plugin}}}}
}

func register(t *testing.T, s *Store, index uint64, id, plugin string) {
	t.Helper()
	if err := s.Write(index,
		func(tx *WriteTx) error { return NodeRegister(tx, aNodeWithPlugin(id, plugin)) }); err != nil {
		t.Fatal(err)
	}
}

// TestMissingRow_WakesOnlyItsReaders: a query without a result is not woken by neighbours of the row.
func TestMissingRow_WakesOnlyItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		ctx, cancel := context.WithCancel(t.Context())
		l := &lookouts{store: s}
		for i := range 30 {
			id := fmt.Sprintf("n%02d", i)
			l.post(ctx, "node "+id, func(tx *ReadTx) { Node(tx, id) })
			l.post(ctx, "instances of "+id, func(tx *ReadTx) {
				for range InstancesByNode(tx, id) {
				}
			})
		}
		l.post(ctx, "unaccounted", func(tx *ReadTx) { Recovering(tx) })
		l.post(ctx, "plugin p", func(tx *ReadTx) {
			for range InstancesByPluginKind(tx, "p", structs.CSIKindNode) {
			}
		})
		l.post(ctx, "any plugin", func(tx *ReadTx) {
			for range Plugins(tx, "") {
			}
		})
		if got := l.took(); got != "" {
			t.Fatalf("before anything: %s", got)
		}
		register(t, s, 1, "n07", "q")
		if got := l.took(); got != "any plugin instances of n07 node n07" {
			t.Errorf("the first node: %s", got)
		}
		register(t, s, 2, "n08", "p")
		if got := l.took(); got != "instances of n08 node n08 plugin p" {
			t.Errorf("the second node: %s", got)
		}
		_ = s.Write(3, func(tx *WriteTx) error {
			_ = NodeRegister(tx, aNodeWithPlugin("n09", "p"))
			return structs.Errorf(structs.KindConflict, "no")
		})
		if got := l.took(); got != "" {
			t.Errorf("what is taken back: %s", got)
		}
		_ = s.Write(4, func(tx *WriteTx) error { Recover(tx, New().Read(), 1); return nil })
		if got := l.took(); got != "unaccounted" {
			t.Errorf("rows that move into an index: %s", got)
		}
		var saved bytes.Buffer
		if err := s.Read().Save(&saved); err != nil {
			t.Fatal(err)
		}
		if err := s.Load(&saved); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(l.took()); len(got) < 28*2 {
			t.Errorf("a restore wakes %d", len(got))
		}
		cancel()
		l.wg.Wait()
	})
}
