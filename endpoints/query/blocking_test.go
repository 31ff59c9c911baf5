package query

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/state"
	"berth/structs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// leader is a server that leads all the time.
type leader struct{}

func (leader) LostLeadership() <-chan struct{} { return nil }

// asking is a blocking query and its result.
type asking struct {
	runs int
	name string
	done chan struct{}

	index uint64
	err   error
}

func ask(ctx context.Context, s *state.Store, opts structs.QueryOptions) *asking {
	return askEngine(ctx, NewEngine(s, leader{}), opts)
}

func askEngine(ctx context.Context, e *Engine, opts structs.QueryOptions) *asking {
	a := &asking{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		req := Request{Method: "Node.Get", Body: &structs.NodeGetRequest{NodeID: "a", QueryOptions: opts}}
		read := func(tx *state.ReadTx) (any, error) {
			a.runs++
			a.name = ""
			n := state.Node(tx, "a")
			if n == nil {
				return nil, structs.Errorf(structs.KindNotFound, "no node a")
			}
			a.name = n.Name
			return &structs.NodeGetResponse{Node: &structs.NodeDetail{Node: *n}}, nil
		}
		_, a.index, a.err = Watch(ctx, e, req, read)
	}()
	synctest.Wait()
	return a
}

func (a *asking) answered() bool {
	synctest.Wait()
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func registerNode(s *state.Store, id, name string) {
	_ = s.Write(s.Index()+1, func(tx *state.WriteTx) error {
		return state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: &structs.Node{ID: id, Name: name}})
	})
}

func deregisterNode(s *state.Store, id string) {
	_ = s.Write(s.Index()+1, func(tx *state.WriteTx) error {
		return state.NodeDeregister(tx, &structs.NodeDeregisterRequest{NodeIDs: []string{id}})
	})
}

// TestWatch_WaitsWithTheIndexOfAnAnswer repeats a query with the index of its answer after another row of its
// table has changed again: the answer is the same, so the query waits.
func TestWatch_WaitsWithTheIndexOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := state.New()
		e := NewEngine(s, leader{})
		registerNode(s, "a", "one")
		registerNode(s, "b", "other")
		first := askEngine(ctx, e, structs.QueryOptions{MinIndex: 1})
		if !first.answered() || first.index != 2 {
			t.Fatalf("got the query %+v, want an answer with index 2", first)
		}
		registerNode(s, "b", "another")
		second := askEngine(ctx, e, structs.QueryOptions{MinIndex: first.index})
		if second.answered() {
			t.Fatalf("got the query %+v, want it to wait", second)
		}
		registerNode(s, "a", "two")
		if !second.answered() || second.name != "two" {
			t.Errorf("got the query %+v, want the changed node", second)
		}
	})
}

func TestWatch_WaitsForAChange(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *state.Store){
		"answers at once without an index": func(t *testing.T, s *state.Store) {
			a := ask(context.Background(), s, structs.QueryOptions{})
			if !a.answered() || a.name != "one" || a.index != 5 || a.err != nil {
				t.Errorf("got the query %+v", a)
			}
		},
		"answers at once after a change": func(t *testing.T, s *state.Store) {
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 4})
			if !a.answered() || a.name != "one" || a.runs != 1 {
				t.Errorf("got the query %+v", a)
			}
		},
		"waits for changes of its rows only": func(t *testing.T, s *state.Store) {
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 5})
			registerNode(s, "b", "other")
			_ = s.Write(7, func(tx *state.WriteTx) error {
				return state.NodeUpdateCSI(tx, &structs.NodeUpdateCSIRequest{
					NodeID: "b",
					Upserts: []*structs.CSIPluginInstance{{
						Kind:    structs.CSIKindNode,
						CSIInfo: structs.CSIInfo{PluginID: "a"},
					}},
				})
			})
			if a.answered() || a.runs != 1 {
				t.Fatalf("after writes elsewhere: %+v", a)
			}
			registerNode(s, "a", "two")
			if !a.answered() || a.name != "two" || a.index != 8 || a.runs != 2 {
				t.Errorf("got the query %+v", a)
			}
		},
		"a failed entry is no change": func(t *testing.T, s *state.Store) {
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 5})
			_ = s.Write(6, func(tx *state.WriteTx) error {
				_ = state.NodeRegister(tx, &structs.NodeRegisterRequest{Node: &structs.Node{ID: "a", Name: "never"}})
				return structs.Errorf(structs.KindInvalid, "no")
			})
			if a.answered() {
				t.Errorf("got the query %+v", a)
			}
			registerNode(s, "a", "two")
			if !a.answered() || a.name != "two" {
				t.Errorf("got the query %+v", a)
			}
		},
		"waits for a missing row": func(t *testing.T, s *state.Store) {
			deregisterNode(s, "a")
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 6})
			if a.answered() {
				t.Fatalf("got the query %+v", a)
			}
			registerNode(s, "a", "back")
			if !a.answered() || a.name != "back" || a.err != nil || a.index != 7 {
				t.Errorf("got the query %+v", a)
			}
		},
		"answers after the deletion of its row": func(t *testing.T, s *state.Store) {
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 5})
			deregisterNode(s, "a")
			if !a.answered() || !structs.IsKind(a.err, structs.KindNotFound) || a.index != 6 {
				t.Errorf("got the query %+v", a)
			}
		},
		"gives the last answer when the time is over": func(t *testing.T, s *state.Store) {
			began := time.Now()
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 99, MaxWait: 30 * time.Second})
			<-a.done
			if a.name != "one" || a.index != 5 || a.err != nil || time.Since(began) != 30*time.Second {
				t.Errorf("got the query %+v after %s", a, time.Since(began))
			}
		},
		"waits five minutes by itself and ten at most": func(t *testing.T, s *state.Store) {
			for asked, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Hour: 10 * time.Minute} {
				began := time.Now()
				<-ask(context.Background(), s, structs.QueryOptions{MinIndex: 99, MaxWait: asked}).done
				if time.Since(began) != want {
					t.Errorf("asked for %s, waited %s", asked, time.Since(began))
				}
			}
		},
		"ends with its caller": func(t *testing.T, s *state.Store) {
			ctx, cancel := context.WithCancel(context.Background())
			a := ask(ctx, s, structs.QueryOptions{MinIndex: 5})
			cancel()
			if !a.answered() || !structs.IsKind(a.err, structs.KindTimeout) {
				t.Errorf("got the query %+v", a)
			}
		},
		"a restored snapshot ends every wait": func(t *testing.T, s *state.Store) {
			old := state.New()
			registerNode(old, "a", "from the snapshot")
			var b bytes.Buffer
			if err := old.Save(&b); err != nil {
				t.Fatal(err)
			}
			a := ask(context.Background(), s, structs.QueryOptions{MinIndex: 5})
			if err := s.Load(&b); err != nil {
				t.Fatal(err)
			}
			if !a.answered() || a.name != "from the snapshot" || a.index != 1 {
				t.Errorf("got the query %+v", a)
			}
		},
		"the index is at least 1": func(t *testing.T, s *state.Store) {
			a := ask(context.Background(), state.New(), structs.QueryOptions{})
			if !a.answered() || a.index != 1 || !structs.IsKind(a.err, structs.KindNotFound) {
				t.Errorf("got the query %+v", a)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := state.New()
				_ = s.Write(4, func(*state.WriteTx) error { return nil })
				registerNode(s, "a", "one")
				test(t, s)
				// The remaining queries are woken, so that the test can end.
				var b bytes.Buffer
				if err := s.Read().Save(&b); err != nil {
					t.Fatal(err)
				}
				_ = s.Load(&b)
			})
		})
	}
}

func TestWatch_ReturnsOtherErrorsAtOnce(t *testing.T) {
	e := NewEngine(state.New(), leader{})
	_, index, err := Watch(context.Background(), e,
		Request{Method: "Node.Get", Body: &structs.NodeGetRequest{QueryOptions: structs.QueryOptions{MinIndex: 7}}},
		func(*state.ReadTx) (any, error) {
			return nil, structs.Errorf(structs.KindDenied, "no")
		})
	if index != 1 || !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("%d, %v", index, err)
	}
}
