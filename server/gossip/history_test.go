package gossip

import (
	"strings"
	"testing"

	"github.com/hashicorp/serf/serf"
)

func TestHistory_IsBounded(t *testing.T) {
	var h History
	named := func(m serf.Member) string { return m.Name }
	for i := range 3 * historyMost {
		members := []serf.Member{{Name: strings.Repeat("x", i)}}
		h.Record(serf.MemberEvent{Type: serf.EventMemberJoin, Members: members}, named)
	}
	if len(h.servers) > historyMost {
		t.Errorf("the history keeps %d names, want at most %d", len(h.servers), historyMost)
	}
	if len(h.servers) == 0 {
		t.Error("the history keeps no names")
	}
}
