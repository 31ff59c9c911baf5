// Package events serves the method that reads events. It asks for the rights of the caller before each answer
// and shows an event only to a caller who may read its row.
package event

import (
	"context"
	"slices"
	"strings"

	"berth/acl"
	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/endpoints/rights"
	"berth/structs"
	"berth/structs/event"
)

// The bounds of a request.
const (
	maxTopics = 64
	maxKeys   = 1000 // of all topics
)

// Right is the right to read events. A topic that the request names needs the right to read its rows. Of all
// topics the answer has the events whose rows the caller may read.
var Right = rights.Both(
	rights.Where("for each topic the right to read its rows", seesTopics),
	rights.Seen("", seesEvent),
)

// Procedures serve the method.
type Procedures struct{ *core.Server }

// List waits for events after an index and returns them.
func (p Procedures) List(ctx context.Context, req *event.ListRequest) (*event.ListResponse, error) {
	s, err := newSelection(req)
	if err != nil {
		return nil, err
	}
	err = p.admit(ctx, req)
	if err != nil {
		return nil, err
	}

	limited, stop := context.WithTimeout(ctx, query.WaitLimit(&req.QueryOptions))
	defer stop()
	resp, err := p.Events.Read(limited, req, s.keep)
	if err != nil {
		return nil, err
	}
	// The rights may have ended during the wait, or may have become others.
	err = p.admit(ctx, req)
	if err != nil {
		return nil, err
	}
	resp.Events = slices.DeleteFunc(resp.Events, func(e *event.Event) bool { return !s.sees(e) })
	resp.Index = max(1, resp.Next)
	return resp, nil
}

// admit asks whether the caller may send the request now.
func (p Procedures) admit(ctx context.Context, req *event.ListRequest) error {
	until, err := p.Gate.Admit(ctx, p.Store.Read(), Right, req)
	if err != nil {
		return err
	}
	_, _, _, silence := p.Raft.Leader()
	_, err = p.Gate.Confirm(until, silence)
	return err
}

// selection decides which events an answer has. A hundred readers ask for each of ten thousand events in a
// second, so it compares no lists.
type selection struct {
	req    *event.ListRequest
	topics map[event.Topic]keySet // event.All has the set for topics that the request does not name
	filter query.MatchFunc
}

// keySet selects events of a topic by their keys.
type keySet struct {
	all  bool
	keys map[string]struct{}
}

// newSelection checks a request. Its errors are of kind invalid.
func newSelection(req *event.ListRequest) (*selection, error) {
	keys := 0
	for t, list := range req.Topics {
		keys += len(list)
		if t != event.All && t != event.Stream && !slices.Contains(event.Topics, t) {
			return nil, structs.Invalidf("there is no topic %q; expected one of %s",
				structs.Cut(string(t), structs.MaxQuoted), names())
		}
	}
	if len(req.Topics) > maxTopics || keys > maxKeys {
		return nil, structs.Invalidf("the request names %d topics and %d keys; expected at most %d and %d: "+
			"leave out the keys and use a filter", len(req.Topics), keys, maxTopics, maxKeys)
	}
	filter, err := query.CompileFilter(req.Filter)
	if err != nil {
		return nil, err
	}
	s := &selection{
		req:    req,
		topics: map[event.Topic]keySet{},
		filter: filter,
	}
	if len(req.Topics) == 0 {
		s.topics[event.All] = keySet{all: true}
	}
	for t, list := range req.Topics {
		s.topics[t] = newKeySet(slices.Concat(list, req.Topics[event.All]))
	}
	return s, nil
}

func newKeySet(list []string) keySet {
	set := keySet{
		all:  slices.Contains(list, event.AllKeys),
		keys: make(map[string]struct{}, len(list)),
	}
	for _, k := range list {
		set.keys[k] = struct{}{}
	}
	return set
}

func names() string {
	var list []string
	for _, t := range event.Topics {
		list = append(list, string(t))
	}
	return strings.Join(append(list, string(event.All)), ", ")
}

// keep reports whether an answer has an event.
func (s *selection) keep(e *event.Event) (bool, error) {
	ns := s.req.RequestNamespace()
	if e.Namespace != "" && ns != structs.AllNamespaces && ns != e.Namespace {
		return false, nil
	}
	if !s.names(e) || !s.sees(e) {
		return false, nil
	}
	return s.filter(e)
}

// names reports whether the topics of the request have an event.
func (s *selection) names(e *event.Event) bool {
	set, named := s.topics[e.Topic]
	if !named {
		set = s.topics[event.All]
	}
	if set.all {
		return true
	}
	return set.has(e.Key) || slices.ContainsFunc(e.FilterKeys, set.has)
}

func (s keySet) has(key string) bool {
	_, ok := s.keys[key]
	return ok
}

// sees reports whether the caller may see an event. The gate has set Sees.
func (s *selection) sees(e *event.Event) bool {
	return s.req.Sees == nil || s.req.Sees(e.Namespace, string(e.Topic)+"/"+rowOf(e))
}

// rowOf returns the name by which rights know the row of an event: the volume of an event about a volume.
func rowOf(e *event.Event) string {
	if isOfVolumes(e.Topic) && len(e.FilterKeys) > 0 {
		return e.FilterKeys[0]
	}
	return e.Key
}

func isOfVolumes(t event.Topic) bool {
	switch t {
	case event.CSIVolume, event.Claim, event.Attachment, event.Snapshot, event.Operation:
		return true
	}
	return false
}

// seesTopics reports whether the caller may see events of each topic that a request names.
func seesTopics(q rights.Question) bool {
	req := q.Req.(*event.ListRequest)
	// Of all topics the answer has the events that the caller may read. One who may read none has no stream.
	if !seesAny(q.ACL) {
		return false
	}
	for t := range req.Topics {
		if t != event.All && t != event.Stream && !seesTopic(q.ACL, t, req.RequestNamespace()) {
			return false
		}
	}
	return true
}

// seesAny reports whether there may be a row of any topic that the caller may read.
func seesAny(a *acl.ACL) bool {
	return a.NodeRead() || a.PluginRead() || a.OperatorRead() || a.AnyNodePool(acl.PoolRead) ||
		a.AnyServices() || a.SeesAnyNamespace()
}

func seesTopic(a *acl.ACL, t event.Topic, namespace string) bool {
	anywhere := namespace == structs.AllNamespaces
	switch t {
	case event.Service:
		return a.Services(namespace) || anywhere && a.AnyServices()
	case event.NodePool:
		return true // the answer has what the caller may read
	case event.HostVolume:
		return hasIn(a, namespace, acl.HostVolumeRead)
	}
	switch {
	case isOfVolumes(t):
		return hasIn(a, namespace, acl.CSIReadVolume)
	case isOfJobs(t):
		return hasIn(a, namespace, acl.ReadJob)
	}
	return seesOne(a, t, namespace, "")
}

func hasIn(a *acl.ACL, namespace string, c acl.Capability) bool {
	if namespace == structs.AllNamespaces {
		return a.AnyNamespace(c)
	}
	return a.Namespace(namespace, c)
}

func isOfJobs(t event.Topic) bool {
	switch t {
	case event.Job, event.Evaluation, event.Allocation, event.Deployment:
		return true
	}
	return false
}

func seesEvent(q rights.Question, namespace, id string) bool {
	topic, row, _ := strings.Cut(id, "/")
	return seesOne(q.ACL, event.Topic(topic), namespace, row)
}

// seesOne reports whether a caller may see a row. A topic without a line here needs a management token.
func seesOne(a *acl.ACL, t event.Topic, namespace, row string) bool {
	switch t {
	case event.Job, event.Evaluation, event.Allocation, event.Deployment:
		return a.Namespace(namespace, acl.ReadJob)
	case event.Service:
		return a.Services(namespace)
	case event.Node, event.Instance, event.Fence:
		return a.NodeRead()
	case event.Clock:
		return a.OperatorRead()
	case event.NodePool:
		return a.NodePool(row, acl.PoolRead)
	case event.CSIPlugin:
		return a.PluginRead()
	case event.HostVolume:
		return a.Namespace(namespace, acl.HostVolumeRead)
	case event.CSIVolume, event.Claim, event.Attachment, event.Snapshot, event.Operation:
		return a.Volume(namespace, row, acl.VolumeRead)
	}
	return a.IsManagement()
}
