package server

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/hashicorp/serf/serf"
)

func memberEvent(typ serf.EventType, name, id string) serf.MemberEvent {
	return serf.MemberEvent{
		Type:    typ,
		Members: []serf.Member{{Name: name, Tags: map[string]string{tagRole: roleServer, tagID: id}}},
	}
}

// The member that may be dismissed is server "old", which was called "s2" and is at address "a2".
func TestMembers_RemovesOnlyServersThatAreGoneForGood(t *testing.T) {
	seen := memberEvent(serf.EventMemberJoin, "s2", "old")
	failed := peer{
		name:    "s2",
		id:      "old",
		rpcAddr: "a2",
		status:  serf.StatusFailed,
	}
	for name, tc := range map[string]struct {
		events []serf.Event
		peers  []peer
		want   string
	}{
		"it is alive": {[]serf.Event{seen},
			[]peer{{
				name:    "s2",
				id:      "old",
				rpcAddr: "a2",
				status:  serf.StatusAlive,
			}}, ""},
		"it is leaving": {[]serf.Event{seen},
			[]peer{{
				name:   "s2",
				id:     "old",
				status: serf.StatusLeaving,
			}}, ""},
		"it has failed":           {[]serf.Event{seen}, []peer{failed}, ""},
		"it was never seen":       {nil, nil, ""},
		"it is not seen any more": {[]serf.Event{seen}, nil, ""},
		"it has left": {[]serf.Event{seen},
			[]peer{{
				name:   "s2",
				id:     "old",
				status: serf.StatusLeft,
			}}, "left"},
		"it was forgotten": {[]serf.Event{seen, memberEvent(serf.EventMemberReap, "s2", "old")},
			nil, "dropped"},
		"it was forgotten and came back": {[]serf.Event{seen, memberEvent(serf.EventMemberReap, "s2", "old"),
			seen}, nil, ""},
		"another one has its address": {[]serf.Event{seen},
			[]peer{failed, {
				name:    "s9",
				id:      "new",
				rpcAddr: "a2",
				status:  serf.StatusAlive,
			}}, "address"},
		"another one had its address": {[]serf.Event{seen},
			[]peer{failed, {
				name:    "s9",
				id:      "new",
				rpcAddr: "a2",
				status:  serf.StatusFailed,
			}}, ""},
		"another one has its name": {[]serf.Event{seen},
			[]peer{{
				name:    "s2",
				id:      "new",
				rpcAddr: "a7",
				status:  serf.StatusAlive,
			}}, "name"},
		"another one had its name": {[]serf.Event{seen},
			[]peer{{
				name:    "s2",
				id:      "new",
				rpcAddr: "a7",
				status:  serf.StatusFailed,
			}}, ""},
		"another one has another name": {[]serf.Event{seen},
			[]peer{{
				name:    "s3",
				id:      "new",
				rpcAddr: "a7",
				status:  serf.StatusAlive,
			}}, ""},
		"a server without a name, and itself": {nil,
			[]peer{{
				name:    "",
				id:      "new",
				rpcAddr: "a7",
				status:  serf.StatusAlive,
			}}, ""},
	} {
		s := &Server{id: "me", members: &membership{}}
		for _, e := range tc.events {
			s.members.history.Record(e, serverID)
		}
		got := s.removalReason(raft.Server{ID: "old", Address: "a2"}, tc.peers)
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: dismissed because %q, want %q", name, got, tc.want)
		}
	}
}
