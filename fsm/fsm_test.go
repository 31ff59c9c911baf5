package fsm

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"berth/state"
	"berth/structs"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestCommands_KeepTheirIDs compares the list of commands with the golden file.
func TestCommands_KeepTheirIDs(t *testing.T) {
	const golden = "testdata/commands.golden"
	var lines []string
	for _, c := range commands {
		lines = append(lines, fmt.Sprintf("%d %s", c.ID, c.Name))
	}
	now := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(golden, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if now != string(want) {
		t.Errorf("got commands\n%s, want\n%s", now, want)
	}
	slices.Sort(lines)
	for n, c := range commands {
		for _, other := range commands[:n] {
			if c.ID == other.ID || c.Name == other.Name {
				t.Errorf("%d %s and %d %s have the same ID or name", c.ID, c.Name, other.ID, other.Name)
			}
		}
	}
}

// local is a Proposer that applies entries to its own FSM.
type local struct {
	*FSM
	index uint64
	err   error
}

func (l *local) Propose(_ context.Context, entry []byte) (uint64, any, error) {
	if l.err != nil {
		return 0, nil, l.err
	}
	l.index++
	return l.index, l.Apply(&raft.Log{
		Type:  raft.LogCommand,
		Index: l.index,
		Data:  entry,
	}), nil
}

func TestPropose_ReturnsTheResultOfTheCommand(t *testing.T) {
	p := &local{FSM: New(state.New())}
	ctx := context.Background()
	node := &structs.Node{ID: "n", SecretID: "s"}
	index, err := Propose(ctx, p, NodeRegister, &structs.NodeRegisterRequest{Node: node})
	if index != 1 || err != nil || state.Node(p.store.Read(), "n") == nil {
		t.Errorf("got index %d, %v, or the node is missing", index, err)
	}
	impostor := &structs.Node{ID: "n", SecretID: "other"}
	index, err = Propose(ctx, p, NodeRegister, &structs.NodeRegisterRequest{Node: impostor})
	if index != 2 || !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got index %d and result %v, want 2 and denied", index, err)
	}
	p.err = structs.Errorf(structs.KindUnavailable, "no leader")
	_, err = Propose(ctx, p, PluginDelete, &structs.CSIPluginDeleteRequest{})
	if !errors.Is(err, p.err) {
		t.Errorf("got error %v, want that of the proposer", err)
	}
}

func TestApply_StopsTheServerAtAnEntryThatItCannotDecode(t *testing.T) {
	for name, c := range map[string]struct {
		entry []byte
		want  string
	}{
		"empty":   {nil, "empty"},
		"unknown": {[]byte{250, 1}, "no command 250"},
		"broken":  {[]byte{NodeRegister.ID, 0xc1}, "payload of NodeRegister"},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(state.New())
			defer func() {
				text := fmt.Sprint(recover())
				if !strings.Contains(text, c.want) || !strings.Contains(text, "log entry 7") {
					t.Errorf("got panic %q, want %q in it", text, c.want)
				}
				// The panic has unlocked the store.
				err := f.store.Write(8, func(*state.WriteTx) error { return nil })
				if err != nil {
					t.Error(err)
				}
			}()
			f.Apply(&raft.Log{
				Type:  raft.LogCommand,
				Index: 7,
				Data:  c.entry,
			})
		})
	}
}

func TestApplyBatch_ReturnsAResultForEachEntry(t *testing.T) {
	f := New(state.New())
	entry := func(index uint64, id, secret string) *raft.Log {
		return &raft.Log{
			Type:  raft.LogCommand,
			Index: index,
			Data:  nodeEntry(t, id, secret),
		}
	}
	answers := f.ApplyBatch([]*raft.Log{
		entry(1, "a", "x"),
		{Type: raft.LogConfiguration, Index: 2},
		entry(3, "a", "y"),
		entry(4, "b", "y"),
	})
	for n, want := range []structs.Kind{"", "", structs.KindDenied, ""} {
		err, _ := answers[n].(error)
		if structs.KindOf(err) != want {
			t.Errorf("entry %d: got result %v, want kind %q", n, answers[n], want)
		}
	}
	tx := f.store.Read()
	if state.Node(tx, "a").SecretID != "x" ||
		state.Node(tx, "b") == nil || tx.Applied() != 4 {
		t.Error("the rows differ from those of the entries")
	}
}

// sink is a snapshot in memory.
type sink struct {
	bytes.Buffer
	fail             error
	closed, canceled bool
}

func (s *sink) ID() string { return "test" }
func (s *sink) Close() error {
	s.closed = true
	return nil
}
func (s *sink) Cancel() error {
	s.canceled = true
	return nil
}
func (s *sink) Write(b []byte) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	return s.Buffer.Write(b)
}

func TestRestore_LoadsTheStateOfTheSnapshot(t *testing.T) {
	from := &local{FSM: New(state.New())}
	addNode := func(id string) {
		req := &structs.NodeRegisterRequest{Node: &structs.Node{ID: id}}
		if _, err := Propose(context.Background(), from, NodeRegister, req); err != nil {
			t.Fatal(err)
		}
	}
	addNode("a")
	snap, err := from.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	addNode("b") // not in the snapshot, although Persist has not run yet
	var out sink
	if err := snap.Persist(&out); err != nil || !out.closed {
		t.Fatal(err)
	}
	snap.Release()
	full := &sink{fail: errors.New("disk full")}
	err = snap.Persist(full)
	if err == nil || !strings.Contains(err.Error(), "disk full") ||
		!full.canceled || full.closed {
		t.Errorf("with a full disk: got %v, canceled %v", err, full.canceled)
	}

	to := New(state.New())
	if err := to.Restore(io.NopCloser(bytes.NewReader(out.Bytes()))); err != nil {
		t.Fatal(err)
	}
	tx := to.store.Read()
	if state.Node(tx, "a") == nil ||
		state.Node(tx, "b") != nil || tx.Applied() != 1 {
		t.Error("the state differs from the saved one")
	}
	if err := to.Restore(io.NopCloser(bytes.NewReader(out.Bytes()[:out.Len()/2]))); err == nil {
		t.Error("half a snapshot was restored")
	}
	if state.Node(to.store.Read(), "a") == nil {
		t.Error("a failed restore changed the state")
	}
}
