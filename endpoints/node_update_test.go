package endpoints

import (
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/codec"
	"berth/state"
	"berth/structs"
)

// anUpdate is what the node sends when it has come to be what edit makes of it.
func anUpdate(s *server, id string, edit func(*structs.Node)) *structs.NodeUpdateRequest {
	s.t.Helper()
	known, is := aRegistration(id).Node, aRegistration(id).Node
	known.Datacenter, known.NodePool = "dc1", structs.DefaultNodePool
	is.Datacenter, is.NodePool = "dc1", structs.DefaultNodePool
	edit(is)
	p := structs.NodeChanges(known, is)
	if p == nil {
		s.t.Fatal("nothing differs")
	}
	return p
}

func sicken(n *structs.Node) {
	n.Drivers["exec"] = &structs.DriverInfo{Detected: true, HealthDescription: "broken", UpdateTime: time.Now()}
}

// stored is what a server holds of a node.
func stored(s *server, id string) *structs.Node { return state.Node(s.store.Read(), id) }

// classOf is the class of a node as it is read.
func classOf(s *server, id string) string {
	return must(s, structs.NodeGet, &structs.NodeGetRequest{NodeID: id}).Node.ComputedClass
}

func TestNodeUpdate_IsOneEntry(t *testing.T) {
	s := newServer(t)
	must(s, structs.NodeRegister, aRegistration("n1"))
	p := anUpdate(s, "n1", func(n *structs.Node) {
		sicken(n)
		n.Attributes["kernel.name"] = "plan9"
	})
	before, class, renewed := s.raft.written(), classOf(s, "n1"), len(s.leases.renewed)
	resp := must(s, structs.NodeUpdate, p)
	n := stored(s, "n1")
	if wrote := s.raft.written() - before; wrote != 1 || resp.Index != n.ModifyIndex {
		t.Errorf("%d log entries, want 1; the answer is at %d, the row at %d", wrote, resp.Index, n.ModifyIndex)
	}
	if n.Drivers["exec"].Healthy || n.Attributes["kernel.name"] != "plan9" || n.Attributes["unique.hostname"] != "n1" || n.Status != structs.NodeReady {
		t.Errorf("%+v", n)
	}
	if classOf(s, "n1") == class {
		t.Errorf("its class is %s as before", class)
	}
	if len(instancesOf(s, "n1")) != 2 || len(s.leases.renewed) != renewed {
		t.Error("it did more than to change the node")
	}
	before = s.raft.written()
	if _, err := (nodes{s.Endpoints}).update(t.Context(), n, p); err != nil { // sent again, its answer was lost
		t.Error(err)
	}
	if wrote := s.raft.written() - before; wrote != 0 {
		t.Errorf("%d log entries for what is known", wrote)
	}
}

// TestNodeUpdate_WithoutNewsWritesNothing sends the same over the wire; a time alone is no news.
func TestNodeUpdate_WithoutNewsWritesNothing(t *testing.T) {
	s := newServer(t)
	must(s, structs.NodeRegister, aRegistration("n1"))
	must(s, structs.NodeUpdate, anUpdate(s, "n1", sicken))
	for _, status := range []string{structs.NodeReady, structs.NodeDown} {
		proposed(s, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: status})
		before, row := s.raft.written(), stored(s, "n1")
		for range 3 {
			if resp := must(s, structs.NodeUpdate, anUpdate(s, "n1", sicken)); resp.Index != row.ModifyIndex {
				t.Errorf("answered at %d, the row is at %d", resp.Index, row.ModifyIndex)
			}
		}
		if n := s.raft.written() - before; n != 0 || stored(s, "n1") != row {
			t.Errorf("%s: %d log entries for what is known", status, n)
		}
	}
}

func TestNodeUpdate_LeavesDownNodeDown(t *testing.T) {
	s := newServer(t)
	must(s, structs.NodeRegister, aRegistration("n1"))
	proposed(s, fsm.NodeStatus, &structs.NodeStatusUpdate{NodeIDs: []string{"n1"}, Status: structs.NodeDown})
	must(s, structs.NodeUpdate, anUpdate(s, "n1", sicken))
	if n := stored(s, "n1"); n.Status != structs.NodeDown || n.Drivers["exec"].Healthy {
		t.Errorf("%+v", n)
	}
}

func TestNodeUpdate_Refuses(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(s *server, p *structs.NodeUpdateRequest)
		want structs.Kind
	}{
		"a wrong secret": {func(_ *server, p *structs.NodeUpdateRequest) { p.SecretID = "guessed" }, structs.KindDenied},
		"no secret":      {func(_ *server, p *structs.NodeUpdateRequest) { p.SecretID = "" }, structs.KindDenied},
		"another node's": {func(s *server, p *structs.NodeUpdateRequest) {
			must(s, structs.NodeRegister, aRegistration("n2"))
			p.NodeID = "n2"
		}, structs.KindDenied},
		"an unknown node": {func(_ *server, p *structs.NodeUpdateRequest) { p.NodeID = "n9" }, structs.KindNotFound},
		"something else is known": {func(s *server, _ *structs.NodeUpdateRequest) {
			r := aRegistration("n1")
			r.Node.Attributes["kernel.name"] = "older"
			must(s, structs.NodeRegister, r)
		}, structs.KindPrecondition},
		"an address that is none": {func(s *server, p *structs.NodeUpdateRequest) {
			p.Settings = stored(s, "n1").Settings()
			p.Settings.HTTPAddr, p.Digest = "http://x/", ""
		}, structs.KindInvalid},
		"no name": {func(s *server, p *structs.NodeUpdateRequest) {
			p.Settings, p.Digest = &structs.NodeSettings{}, ""
		}, structs.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			must(s, structs.NodeRegister, aRegistration("n1"))
			p := anUpdate(s, "n1", sicken)
			c.edit(s, p)
			before := s.raft.written()
			refused(s, c.want, structs.NodeUpdate, p)
			if n := s.raft.written() - before; n != 0 {
				t.Errorf("%d log entries", n)
			}
		})
	}
}

// TestNodeUpdate_MergesUpdatesOfOneRow: an update of a row that changes while it is under way changes what it names
// of the row as it then is.
func TestNodeUpdate_MergesUpdatesOfOneRow(t *testing.T) {
	s := newServer(t)
	must(s, structs.NodeRegister, aRegistration("n1"))
	n := nodes{s.Endpoints}
	old := stored(s, "n1")
	class := classOf(s, "n1")
	for _, key := range []string{"a", "b"} { // each with the row as it was before both
		update := &structs.NodeUpdateRequest{NodeID: "n1", SecretID: secretOf("n1"), ComputedClass: "said", Was: 1}
		update.Attributes = map[string]string{key: "new"}
		if _, err := n.update(t.Context(), old, update); err != nil {
			t.Fatal(err)
		}
	}
	is := stored(s, "n1")
	if is.Attributes["a"] != "new" || is.Attributes["b"] != "new" || is.ComputedClass != "" {
		t.Errorf("%v, with the class %q", is.Attributes, is.ComputedClass)
	}
	if classOf(s, "n1") == class {
		t.Errorf("the class is %s as before", class)
	}
}

// TestNodeUpdate_DoesNotGrowWithNode: what is sent and logged of a driver is the same however much else a node
// has to say.
func TestNodeUpdate_DoesNotGrowWithNode(t *testing.T) {
	size := func(attributes int) int {
		known, is := aRegistration("n1").Node, aRegistration("n1").Node
		for i := range attributes {
			key := "attribute." + string(rune('a'+i%26)) + time.Duration(i).String()
			known.Attributes[key], is.Attributes[key] = "value", "value"
		}
		sicken(is)
		b, err := codec.Encode(structs.NodeChanges(known, is))
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	if small, large := size(0), size(1000); small != large {
		t.Errorf("%d bytes with few attributes, %d with many", small, large)
	}
}
