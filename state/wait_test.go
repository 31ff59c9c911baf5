package state_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/test/kit"
)

// watchers are named queries that wait, each once.
type watchers struct {
	store *state.Store
	wg    sync.WaitGroup
	mu    sync.Mutex
	woken []string
}

func (l *watchers) start(ctx context.Context, name string, look func(*state.ReadTx)) {
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

// takeWoken returns the names of the woken queries when nothing changes any more.
func (l *watchers) takeWoken() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.woken)
	names := strings.Join(l.woken, " ")
	l.woken = nil
	return names
}

func aNodeWithPlugin(id, plugin string) *structs.NodeRegisterRequest {
	return &structs.NodeRegisterRequest{
		Node: &structs.Node{
			ID:       id,
			SecretID: "s",
			Name:     id,
			Status:   structs.NodeReady,
		},
		CSI: []*structs.CSIPluginInstance{{
			Kind:    structs.CSIKindNode,
			NodeID:  id,
			CSIInfo: structs.CSIInfo{PluginID: plugin},
		}},
	}
}

func register(t *testing.T, s *state.Store, index uint64, id, plugin string) {
	t.Helper()
	kit.Must(t, s.Write(index, func(tx *state.WriteTx) error {
		return state.NodeRegister(tx, aNodeWithPlugin(id, plugin))
	}))
}

// TestMissingRow_WakesOnlyItsReaders checks that neighbours of a missing row do not wake a query for the row.
func TestMissingRow_WakesOnlyItsReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := state.New()
		ctx, cancel := context.WithCancel(t.Context())
		l := &watchers{store: s}
		for i := range 30 {
			id := fmt.Sprintf("n%02d", i)
			l.start(ctx, "node "+id, func(tx *state.ReadTx) { state.Node(tx, id) })
			l.start(ctx, "instances of "+id, func(tx *state.ReadTx) {
				for range csi.InstancesByNode(tx, id) {
				}
			})
		}
		l.start(ctx, "unaccounted", func(tx *state.ReadTx) { csi.Recovering(tx) })
		l.start(ctx, "plugin p", func(tx *state.ReadTx) {
			for range csi.InstancesByPluginKind(tx, "p", structs.CSIKindNode) {
			}
		})
		l.start(ctx, "any plugin", func(tx *state.ReadTx) {
			for range state.Plugins(tx, "") {
			}
		})
		if got := l.takeWoken(); got != "" {
			t.Fatalf("before any change %s woke", got)
		}
		register(t, s, 1, "n07", "q")
		if got := l.takeWoken(); got != "any plugin instances of n07 node n07" {
			t.Errorf("the first node woke %s", got)
		}
		register(t, s, 2, "n08", "p")
		if got := l.takeWoken(); got != "instances of n08 node n08 plugin p" {
			t.Errorf("the second node woke %s", got)
		}
		_ = s.Write(3, func(tx *state.WriteTx) error {
			_ = state.NodeRegister(tx, aNodeWithPlugin("n09", "p"))
			return structs.Errorf(structs.KindConflict, "no")
		})
		if got := l.takeWoken(); got != "" {
			t.Errorf("an entry that was undone woke %s", got)
		}
		_ = s.Write(4, func(tx *state.WriteTx) error {
			state.Recover(tx, state.New().Read(), 1)
			return nil
		})
		if got := l.takeWoken(); got != "unaccounted" {
			t.Errorf("rows that move into an index woke %s", got)
		}
		var saved bytes.Buffer
		if err := s.Read().Save(&saved); err != nil {
			t.Fatal(err)
		}
		if err := s.Load(&saved); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(l.takeWoken()); len(got) < 28*2 {
			t.Errorf("a restore woke %d queries, want at least %d", len(got), 28*2)
		}
		cancel()
		l.wg.Wait()
	})
}
