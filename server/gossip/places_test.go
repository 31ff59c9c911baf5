package gossip

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/internal/agentproof"
	"berth/structs"
)

func serverAt(name, id, addr, machine string) serf.Member {
	return serf.Member{Name: name, Tags: map[string]string{"id": id, "addr": addr, "machine": machine}}
}

// placesAt makes the places of server "me", with a clock.
func placesAt(now *time.Time) *Places {
	return NewPlaces(PlacesConfig{
		Describe: func(m serf.Member) (string, agentproof.Server) {
			return m.Tags["id"], agentproof.Server{
				Name:    m.Name,
				Address: m.Tags["addr"],
				Machine: structs.MachineID(m.Tags["machine"]),
			}
		},
		Check: func(m serf.Member) error {
			if m.Tags["old"] != "" {
				return structs.Preconditionf("update it")
			}
			return nil
		},
		Self:   serverAt("s0", "me", "a0", "machine:0"),
		Wait:   5 * time.Minute,
		Logger: hclog.NewNullLogger(),
		Now:    func() time.Time { return *now },
	})
}

func record(p *Places, event serf.EventType, m serf.Member) {
	p.Record(serf.MemberEvent{Type: event, Members: []serf.Member{m}})
}

// A member without an ID is rejected, too: it may be one of a former version.
func TestPlaces_KeepOutWhatTheCheckRejects(t *testing.T) {
	now := time.Unix(1000, 0)
	p := placesAt(&now)
	for _, id := range []string{"", "s1"} {
		m := serverAt("older"+id, id, "a1", "machine:1")
		m.Tags["old"] = "1"
		err := p.NotifyMerge([]*serf.Member{&m})
		if !structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("the ID %q: %v, want the error of the check", id, err)
		}
		m.Tags["old"] = ""
		err = p.NotifyMerge([]*serf.Member{&m})
		if err != nil {
			t.Errorf("the ID %q, after its update: %v", id, err)
		}
	}
	if got := p.Rejected(); len(got) != 2 {
		t.Errorf("%d servers are shown as rejected, want both", len(got))
	}
}

func TestPlaces_KeepACopyOutUntilTheWaitIsOver(t *testing.T) {
	now := time.Unix(1000, 0)
	p := placesAt(&now)
	first := serverAt("s1", "id", "a1", "machine:1")
	twin := serverAt("s9", "id", "a9", "machine:9")
	for _, name := range []string{"s9", "s0"} {
		m := serverAt(name, "me", "a9", "machine:9")
		if err := p.NotifyMerge([]*serf.Member{&m}); err == nil {
			t.Errorf("a server takes %s for itself", m.Name)
		}
	}
	if err := p.NotifyMerge([]*serf.Member{&first}); err != nil {
		t.Fatal(err)
	}
	record(p, serf.EventMemberJoin, first)
	rejected := func(why string, want bool) {
		t.Helper()
		if err := p.NotifyMerge([]*serf.Member{&twin}); (err != nil) != want {
			t.Errorf("%s: %v, want rejected: %v", why, err, want)
		}
	}
	rejected("while the first is alive", true)
	if got := p.Rejected(); len(got) != 2 {
		t.Errorf("%d servers are shown as rejected, want the copy of this one and of another", len(got))
	}
	record(p, serf.EventMemberFailed, first)
	rejected("when the first has just failed", true)
	now = now.Add(5*time.Minute - 1)
	rejected("shortly before the end of the wait", true)
	now = now.Add(1)
	rejected("after the wait", false)
	record(p, serf.EventMemberJoin, twin)
	if has, moved := p.Has("id", "a9"); !has || !moved || !p.Settled("id") {
		t.Errorf("after the move: at the new address %v, on another machine %v", has, moved)
	}
	if err := p.NotifyMerge([]*serf.Member{&first}); err == nil {
		t.Error("the first one comes back beside the second")
	}
	now = now.Add(2 * rejectedFor)
	if got := p.Rejected(); len(got) != 0 {
		t.Errorf("%v are shown as rejected without an attempt", got)
	}
}

// A restart at another address is known before the gossip has it.
func TestPlaces_ARestartElsewhereIsPending(t *testing.T) {
	now := time.Unix(1000, 0)
	p := placesAt(&now)
	record(p, serf.EventMemberJoin, serverAt("s1", "id", "a1", "machine:1"))
	next := serverAt("s1", "id", "a7", "machine:1")
	if err := p.NotifyMerge([]*serf.Member{&next}); err != nil {
		t.Error(err)
	}
	if got := p.Pending("id"); got != "a7" {
		t.Errorf("%q is pending, want a7", got)
	}
	record(p, serf.EventMemberFailed, serverAt("s1", "id", "a1", "machine:1"))
	record(p, serf.EventMemberJoin, next)
	has, moved := p.Has("id", "a7")
	if !has || moved || p.Pending("id") != "" {
		t.Errorf("it is at a7: %v, on another machine: %v, pending: %q", has, moved, p.Pending("id"))
	}
}

// Two servers with one ID may come in the same moment, before either is noted.
func TestPlaces_TheFirstOfTwoStays(t *testing.T) {
	now := time.Unix(1000, 0)
	p := placesAt(&now)
	record(p, serf.EventMemberJoin, serverAt("s1", "id", "a1", "machine:1"))
	record(p, serf.EventMemberJoin, serverAt("s9", "id", "a9", "machine:9"))
	if has, _ := p.Has("id", "a9"); has {
		t.Error("the second one has the place")
	}
	if p.Settled("id") {
		t.Error("the place is settled at once")
	}
	now = now.Add(5 * time.Minute)
	if !p.Settled("id") {
		t.Error("the place is not settled after the wait")
	}
	record(p, serf.EventMemberLeave, serverAt("s1", "id", "a1", "machine:1"))
	m := serverAt("s9", "id", "a9", "machine:9")
	if err := p.NotifyMerge([]*serf.Member{&m}); err != nil {
		t.Errorf("after the first has left: %v", err)
	}
}
