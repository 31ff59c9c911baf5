package gossip

import (
	"net"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"

	"berth/structs"
)

// counter counts the calls of a delegate.
type counter int

func (c *counter) NotifyMerge([]*serf.Member) error {
	*c++
	return nil
}

func TestNames_NoticeAnotherServerWithTheOwnName(t *testing.T) {
	member := func(name, id, ip string) *serf.Member {
		return &serf.Member{Name: name, Addr: net.ParseIP(ip), Port: 4748, Tags: map[string]string{"id": id}}
	}
	for name, c := range map[string]struct {
		seen  *serf.Member
		fault bool
	}{
		"another server":            {member("localhost.global", "b", "10.0.0.2"), true},
		"this server":               {member("localhost.global", "a", "10.0.0.1"), false},
		"this server elsewhere":     {member("localhost.global", "a", "10.0.0.9"), false},
		"this server before a loss": {member("localhost.global", "old", "10.0.0.1"), false},
		"another name":              {member("s2.global", "b", "10.0.0.2"), false},
	} {
		var next counter
		sc := &serf.Config{NodeName: "localhost.global", Merge: &next}
		idOf := func(m serf.Member) string { return m.Tags["id"] }
		n := WatchNames(sc, "a", idOf, hclog.NewNullLogger())
		if err := sc.Merge.NotifyMerge([]*serf.Member{c.seen}); err != nil || n.Fault() != nil {
			t.Errorf("%s: before the gossip works: got %v, %v", name, err, n.Fault())
		}
		n.Follow(func() serf.Member { return *member("localhost.global", "a", "10.0.0.1") })
		err := sc.Merge.NotifyMerge([]*serf.Member{c.seen})
		fault := n.Fault()
		if err != nil || (fault != nil) != c.fault {
			t.Errorf("%s: got %v, %v", name, err, fault)
		}
		if c.fault && (!structs.IsKind(fault, structs.KindConflict) ||
			!strings.Contains(fault.Error(), "10.0.0.2:4748") || !strings.Contains(fault.Error(), "-name (name)")) {
			t.Errorf("%s: got %v, which does not name the server and the setting", name, fault)
		}
		if next != 2 {
			t.Errorf("%s: the next delegate was called %d times", name, next)
		}
	}
}
