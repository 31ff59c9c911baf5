package event_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/server/events"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/event"
)

// newServer returns a server with access control, whose events are those of its entries.
func newServer(t *testing.T) *endpointstest.Server {
	s := endpointstest.New(t)
	feed := events.New(events.DefaultSettings())
	s.Events = feed
	s.Guard()
	s.Roles = false
	s.Raft.Observe(feed)
	return s
}

// options are those of a reader that does not wait.
func options(secret string) structs.QueryOptions {
	return structs.QueryOptions{AuthToken: secret, Namespace: "*", MaxWait: time.Nanosecond}
}

// seen lists what a reader gets: the topics, each with the keys of its events.
func seen(s *endpointstest.Server, req *event.ListRequest) map[event.Topic][]string {
	found := map[event.Topic][]string{}
	for _, e := range endpointstest.Must(s, event.List, req).Events {
		if !slices.Contains(found[e.Topic], e.Key) {
			found[e.Topic] = append(found[e.Topic], e.Key)
		}
	}
	return found
}

// fixture has rows of two namespaces and of the cluster.
func fixture(s *endpointstest.Server) {
	s.AddNamespace("team")
	for _, ns := range []string{"default", "team"} {
		endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{
			Job:          &structs.Job{ID: "job-" + ns, Namespace: ns, Type: structs.JobService},
			WriteOptions: structs.WriteOptions{Namespace: ns},
		})
	}
	s.AddNode("n1", "z1")
	s.AddVolume("open")
	s.AddVolume("sealed")
	s.AddAlloc("a", "n1")
	s.Claim("open", "a", "n1")
}

func TestList_GivesTheEventsThatItsTopicsName(t *testing.T) {
	s := newServer(t)
	fixture(s)
	secret := s.ManagementToken()
	type topics = map[event.Topic][]string
	for name, c := range map[string]struct {
		named, want topics
	}{
		"a key": {
			topics{event.Job: {"job-team"}},
			topics{event.Job: {"job-team"}},
		},
		"a topic without a key": {topics{event.Job: nil}, topics{}},
		"a key of each topic": {
			topics{event.All: {"n1"}},
			topics{event.Node: {"n1"}, event.Claim: {"open/a"}, event.Attachment: {"open/n1"}},
		},
		"a key of a topic, and one of each topic": {
			topics{event.Job: {"job-team"}, event.Node: {"n9"}, event.All: {"job-default"}},
			topics{event.Job: {"job-default", "job-team"}},
		},
		"another ID that selects an event": {
			topics{event.Claim: {"open"}, event.Attachment: {"sealed"}},
			topics{event.Claim: {"open/a"}},
		},
	} {
		got := seen(s, &event.ListRequest{Topics: c.named, QueryOptions: options(secret)})
		// The evaluations and allocations of the fixture have random IDs.
		maps.DeleteFunc(got, func(topic event.Topic, _ []string) bool {
			return topic == event.Evaluation || topic == event.Allocation || topic == event.Instance
		})
		if !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestList_ShowsTheRowsThatItsCallerMayRead(t *testing.T) {
	s := newServer(t)
	fixture(s)
	jobs := s.Token(`namespace "team" { capabilities = ["read-job"] }`)
	volumes := s.Token(`
namespace "default" {
  capabilities = ["csi-read-volume", "csi-list-volume"]
  volume "sealed" { policy = "deny" }
}`)
	nodes := s.Token(`node { policy = "read" }`)
	servers := s.Token(`operator { policy = "read" }`)

	_, err := fsm.Propose(t.Context(), s.Raft, fsm.ClusterTimeSet, &cluster.ClusterTimeRequest{
		Clock: cluster.ClusterTime{Time: 1},
		Wrong: []cluster.WrongClock{{ServerID: "i", Server: "s1.global", Ahead: time.Hour}},
	})
	if err != nil {
		t.Fatal(err)
	}

	for name, c := range map[string]struct {
		secret string
		want   map[event.Topic][]string
	}{
		"jobs of a namespace": {jobs, map[event.Topic][]string{event.Job: {"job-team"}}},
		"volumes but one": {volumes, map[event.Topic][]string{
			event.CSIVolume: {"open"}, event.Claim: {"open/a"}, event.Attachment: {"open/n1"},
		}},
		"servers": {servers, map[event.Topic][]string{event.Clock: {"s1.global"}}},
		"nodes":   {nodes, map[event.Topic][]string{event.Node: {"n1"}, event.Instance: nil}},
	} {
		got := seen(s, &event.ListRequest{QueryOptions: options(c.secret)})
		for topic, keys := range c.want {
			if len(got[topic]) == 0 || keys != nil && !slices.Equal(got[topic], keys) {
				t.Errorf("%s: of topic %s got %v, want %v", name, topic, got[topic], keys)
			}
		}
		for topic := range got {
			if _, wanted := c.want[topic]; !wanted && topic != event.Operation && topic != event.Evaluation {
				t.Errorf("%s: got events of topic %s: %v", name, topic, got[topic])
			}
		}
	}

	all := seen(s, &event.ListRequest{QueryOptions: options(s.ManagementToken())})
	for _, topic := range []event.Topic{
		event.Job, event.Node, event.CSIVolume, event.ACLToken, event.ACLPolicy,
	} {
		if len(all[topic]) == 0 {
			t.Errorf("a management token sees no event of topic %s: %v", topic, slices.Collect(maps.Keys(all)))
		}
	}
}

func TestList_DeniesATopicWithoutTheRight(t *testing.T) {
	s := newServer(t)
	jobs := s.Token(`namespace "team" { capabilities = ["read-job"] }`)
	for topic, denied := range map[event.Topic]bool{
		event.Job: false, event.Allocation: false, event.All: false, event.Stream: false,
		event.Node: true, event.CSIVolume: true, event.ACLToken: true, event.HostVolume: true,
		event.CSIPlugin: true, event.Claim: true, event.Fence: true, event.Clock: true,
	} {
		req := &event.ListRequest{
			Topics:       map[event.Topic][]string{topic: {event.AllKeys}},
			QueryOptions: options(jobs),
		}
		if denied {
			endpointstest.Rejected(s, structs.KindDenied, event.List, req)
			continue
		}
		endpointstest.Must(s, event.List, req)
	}

	other := &event.ListRequest{
		Topics:       map[event.Topic][]string{event.Job: {event.AllKeys}},
		QueryOptions: structs.QueryOptions{AuthToken: jobs, Namespace: "default"},
	}
	endpointstest.Rejected(s, structs.KindDenied, event.List, other)
}

// A caller who may read no row of any topic gets no stream, which would take the place of another one.
func TestList_DeniesACallerWithoutAnyRow(t *testing.T) {
	s := newServer(t)
	topics := []event.Topic{"", event.All, event.Stream, event.NodePool}
	for rules, denied := range map[string]bool{
		"":                                                         true, // no token
		`agent { policy = "write" }`:                               true,
		`namespace "team" { policy = "deny" }`:                     true,
		`node_pool "gpu" { policy = "deny" }`:                      true,
		`node { policy = "read" }`:                                 false,
		`plugin { policy = "read" }`:                               false,
		`operator { policy = "read" }`:                             false,
		`node_pool "gpu" { policy = "read" }`:                      false,
		`namespace "team" { capabilities = ["read-job"] }`:         false,
		`namespace "team" { capabilities = ["host-volume-read"] }`: false,
		"namespace \"default\" {\n  volume \"sealed\" { policy = \"read\" }\n}": false,
		`namespace "default" { capabilities = ["csi-read-volume"] }`:            false,
	} {
		secret := access.Anonymous
		if rules != "" {
			secret = s.Token(rules)
		}
		for _, topic := range topics {
			req := &event.ListRequest{QueryOptions: options(secret)}
			if topic != "" {
				req.Topics = map[event.Topic][]string{topic: {event.AllKeys}}
			}
			if denied {
				endpointstest.Rejected(s, structs.KindDenied, event.List, req)
				continue
			}
			endpointstest.Must(s, event.List, req)
		}
	}
}

func TestList_SelectsByTopicKeyNamespaceAndFilter(t *testing.T) {
	s := newServer(t)
	fixture(s)
	secret := s.ManagementToken()
	inDefault := options(secret)
	inDefault.Namespace = ""
	filtered := options(secret)
	filtered.Filter = `Topic == "Job" and Key != "job-team"`
	for name, c := range map[string]struct {
		req  event.ListRequest
		want map[event.Topic][]string
	}{
		"a topic": {
			event.ListRequest{Topics: map[event.Topic][]string{event.Node: {"*"}}, QueryOptions: options(secret)},
			map[event.Topic][]string{event.Node: {"n1"}},
		},
		"a key": {
			event.ListRequest{
				Topics:       map[event.Topic][]string{event.Job: {"job-team"}},
				QueryOptions: options(secret),
			},
			map[event.Topic][]string{event.Job: {"job-team"}},
		},
		"a filter key of any topic": {
			event.ListRequest{Topics: map[event.Topic][]string{event.All: {"sealed"}}, QueryOptions: options(secret)},
			map[event.Topic][]string{event.CSIVolume: {"sealed"}},
		},
		"a filter": {
			event.ListRequest{QueryOptions: filtered},
			map[event.Topic][]string{event.Job: {"job-default"}},
		},
	} {
		got := seen(s, &c.req)
		if !slices.Equal(slices.Collect(maps.Keys(got)), slices.Collect(maps.Keys(c.want))) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		for topic, keys := range c.want {
			if !slices.Equal(got[topic], keys) && name != "a filter" {
				t.Errorf("%s: of topic %s got %v, want %v", name, topic, got[topic], keys)
			}
		}
	}
	got := seen(s, &event.ListRequest{QueryOptions: inDefault})
	if slices.Contains(got[event.Job], "job-team") || len(got[event.Node]) == 0 {
		t.Errorf("of the namespace default: got %v, want no row of another one, and those without one", got)
	}
}

func TestList_RejectsAMalformedRequest(t *testing.T) {
	s := newServer(t)
	for text, req := range map[string]*event.ListRequest{
		`no topic "Tree"`: {Topics: map[event.Topic][]string{"Tree": nil}},
		"the filter":      {QueryOptions: structs.QueryOptions{Filter: "("}},
		"1001 keys":       {Topics: map[event.Topic][]string{event.Job: make([]string, 1001)}},
	} {
		endpointstest.WantText(t, endpointstest.Rejected(s, structs.KindInvalid, event.List, req), text)
	}
}

// A token that is deleted while its reader waits gives nothing any more.
func TestList_AsksAgainAfterTheWait(t *testing.T) {
	s := newServer(t)
	secret := s.Token(`namespace "*" { policy = "read" }`)
	accessor := ""
	management := s.ManagementToken()
	list := &access.TokenListRequest{Type: access.TypeClient}
	list.AuthToken = management
	for _, k := range endpointstest.Must(s, access.TokenList, list).Tokens {
		accessor = k.AccessorID
	}
	feed := s.Events
	s.Events = deletes{feed, func() {
		req := &access.TokenDeleteRequest{AccessorID: accessor}
		req.AuthToken = management
		endpointstest.Must(s, access.TokenDelete, req)
	}}
	endpointstest.Rejected(s, structs.KindDenied, event.List, &event.ListRequest{QueryOptions: options(secret)})
}

// deletes are events during whose reading something happens.
type deletes struct {
	core.Events
	do func()
}

func (d deletes) Read(
	ctx context.Context, req *event.ListRequest, keep func(*event.Event) (bool, error),
) (*event.ListResponse, error) {
	d.do()
	return d.Events.Read(ctx, req, keep)
}
