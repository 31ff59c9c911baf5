package consul

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/consul/lookup"
	"berth/structs"
)

// Lookup implements lookup.Source: it answers the questions of templates from the state of any server of
// Consul that has a leader, with the rights of the agent's token.
func (l *Link) Lookup(
	ctx context.Context, q lookup.Query, after uint64, wait time.Duration,
) (*lookup.Answer, error) {
	limit := l.config.Timeout
	if after > 0 {
		limit += wait + wait/16 // Consul adds up to a sixteenth
	}

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	// Any server of Consul may answer, so that templates do not load its leader. KnownLeader below tells of a
	// server that is cut off.
	options := (&api.QueryOptions{
		AllowStale: true,
		Datacenter: q.Place,
		Near:       q.Near,
		WaitIndex:  after,
		WaitTime:   wait,
	}).WithContext(ctx)

	value, empty, meta, err := l.lookup(q, options)
	switch {
	case err != nil:
		return nil, shortened(q, err)
	case !meta.KnownLeader && meta.QueryBackend != api.QueryBackendStreaming: // whose answers never know it
		return nil, structs.Unavailablef("reading %s from Consul: it has no leader", q)
	// A template must not be rendered without services that are there and only hidden.
	case empty && meta.ResultsFilteredByACLs:
		return nil, structs.Errorf(structs.KindDenied,
			"reading %s from Consul: it is hidden from the %s token", q, q.Owner())
	}

	return &lookup.Answer{Value: value, Index: meta.LastIndex}, nil
}

// shortened returns the error of a query without its address, which has another index each time, and with a
// bounded part of the answer.
func shortened(q lookup.Query, err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	doing := "reading " + q.String() + " from Consul"
	if statusOf(err) == http.StatusForbidden {
		err = structs.Errorf(structs.KindDenied, "%s: Consul denies it to the %s token: %w", doing, q.Owner(), err)
	} else {
		err = plain(doing, err)
	}
	return structs.Errorf(structs.KindOf(err), "%s", structs.Cut(err.Error(), structs.MaxText))
}

// lookup asks Consul. empty says that the answer has nothing, which may be because of the token.
func (l *Link) lookup(
	q lookup.Query, options *api.QueryOptions,
) (value any, empty bool, meta *api.QueryMeta, err error) {
	switch q.Kind {
	case lookup.ConsulService:
		var found []*api.ServiceEntry
		found, meta, err = l.waiting.Health().Service(q.Name, q.Tag, q.Filter == api.HealthPassing, options)
		return serviceValues(found, q), len(found) == 0, meta, err
	case lookup.ConsulServices:
		var found map[string][]string
		found, meta, err = l.waiting.Catalog().Services(options)
		return nameValues(found), len(found) == 0, meta, err
	case lookup.ConsulKey:
		var found *api.KVPair
		found, meta, err = l.waiting.KV().Get(q.Name, options)
		if found == nil {
			// A nil of the type: a template sees a key without a value, and no error.
			return (*lookup.KeyPair)(nil), false, meta, err
		}

		return keyValue(found, ""), false, meta, err

	case lookup.ConsulKeys:
		var found api.KVPairs
		found, meta, err = l.waiting.KV().List(q.Name, options)
		return keyValues(found, q.Name), len(found) == 0, meta, err
	}
	return nil, false, nil, structs.Invalidf("Consul has no %s", q.Kind)
}

// serviceValues returns the instances with the states that a query accepts, in the order of their nodes and
// IDs, or as Consul has sorted them.
func serviceValues(found []*api.ServiceEntry, q lookup.Query) []*lookup.Service {
	accepted := strings.Split(q.Filter, ",")
	list := []*lookup.Service{}
	for _, e := range found {
		if e == nil || e.Service == nil || e.Node == nil {
			continue
		}

		// AggregatedStatus reads each of them.
		e.Checks = slices.DeleteFunc(e.Checks, func(c *api.HealthCheck) bool { return c == nil })
		status := e.Checks.AggregatedStatus()
		if slices.Contains(accepted, "any") || slices.Contains(accepted, status) {
			list = append(list, serviceValue(e, status))
		}
	}

	if q.Near == "" {
		slices.SortStableFunc(list, func(a, b *lookup.Service) int {
			return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
		})
	}

	return list
}

// serviceValue returns an instance with the names that templates use. Its tags are sorted, so that their
// order is no change of the answer.
func serviceValue(e *api.ServiceEntry, status string) *lookup.Service {
	s := &lookup.Service{
		Node:                e.Node.Node,
		NodeID:              e.Node.ID,
		NodeAddress:         e.Node.Address,
		NodeTaggedAddresses: e.Node.TaggedAddresses,
		NodeMeta:            e.Node.Meta,
		ServiceMeta:         e.Service.Meta,
		Address:             cmp.Or(e.Service.Address, e.Node.Address),
		ID:                  e.Service.ID,
		Name:                e.Service.Service,
		Tags:                slices.Sorted(slices.Values(e.Service.Tags)),
		Status:              status,
		Port:                e.Service.Port,
		Weights:             lookup.Weights(e.Service.Weights),

		ServiceTaggedAddresses: map[string]lookup.TaggedAddress{},
	}

	for name, a := range e.Service.TaggedAddresses {
		s.ServiceTaggedAddresses[name] = lookup.TaggedAddress(a)
	}

	for _, c := range e.Checks {
		s.Checks = append(s.Checks, lookup.Check{
			Node:        c.Node,
			CheckID:     c.CheckID,
			Name:        c.Name,
			Status:      c.Status,
			Notes:       c.Notes,
			Output:      c.Output,
			ServiceID:   c.ServiceID,
			ServiceName: c.ServiceName,
			ServiceTags: c.ServiceTags,
			Type:        c.Type,
		})
	}

	return s
}

// nameValues returns an empty list, not nil, for none: nil would be null in the digest of an answer.
func nameValues(found map[string][]string) []*lookup.ServiceName {
	list := []*lookup.ServiceName{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		list = append(list, &lookup.ServiceName{
			Name: name,
			Tags: slices.Sorted(slices.Values(found[name])),
		})
	}
	return list
}

func keyValues(found api.KVPairs, prefix string) []*lookup.KeyPair {
	list := []*lookup.KeyPair{}
	for _, pair := range found {
		if pair != nil {
			list = append(list, keyValue(pair, prefix))
		}
	}
	return list
}

// keyValue returns a key as templates see it, with its name below a prefix.
func keyValue(pair *api.KVPair, prefix string) *lookup.KeyPair {
	return &lookup.KeyPair{
		Path:        pair.Key,
		Key:         strings.TrimLeft(strings.TrimPrefix(pair.Key, prefix), "/"),
		Value:       string(pair.Value),
		CreateIndex: pair.CreateIndex,
		ModifyIndex: pair.ModifyIndex,
		LockIndex:   pair.LockIndex,
		Flags:       pair.Flags,
		Session:     pair.Session,
		Exists:      true,
	}
}
