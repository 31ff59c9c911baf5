package lookup

import (
	"cmp"
	"context"
	"slices"
	"time"

	"berth/rpc"
	"berth/structs"
)

// callTimeout bounds a request to the servers, beside its wait.
const callTimeout = 10 * time.Second

// Servers is the source of services of provider berth, and of variables.
type Servers struct {
	Caller rpc.Caller
	Region string // of the node
	// Node returns the ID and the secret with which the node reads variables.
	Node func() (id, secret string)
}

// Lookup implements Source.
func (s *Servers) Lookup(ctx context.Context, q Query, after uint64, wait time.Duration) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	options := structs.QueryOptions{
		Region:    cmp.Or(q.Place, s.Region),
		Namespace: q.Namespace,
		MinIndex:  after,
		MaxWait:   wait,
	}

	switch q.Kind {
	case BerthServices:
		return s.names(ctx, options)
	case BerthVariable:
		return s.variable(ctx, q, options)
	case BerthVariables:
		return s.variables(ctx, q, options)
	}

	req := &structs.ServiceGetRequest{
		ServiceName:  q.Name,
		Choose:       q.Choose,
		QueryOptions: options,
	}

	resp, err := rpc.Call(ctx, s.Caller, structs.ServiceGet, req)
	if err != nil {
		return nil, err
	}

	return &Answer{instances(resp.Services, q.Tag), resp.Index}, nil
}

// instances returns the rows with a tag, in the order of the servers. The tags are sorted: see serviceValue.
func instances(rows []*structs.ServiceRegistration, tag string) []*Instance {
	list := []*Instance{}
	for _, r := range rows {
		if r == nil || tag != "" && !slices.Contains(r.Tags, tag) {
			continue
		}

		list = append(list, &Instance{
			ID:         r.ID,
			Name:       r.ServiceName,
			Node:       r.NodeID,
			Address:    r.Address,
			Port:       r.Port,
			Datacenter: r.Datacenter,
			Tags:       slices.Sorted(slices.Values(r.Tags)),
			JobID:      r.JobID,
			AllocID:    r.AllocID,
			Meta:       r.Meta,
			Status:     r.Status,
		})
	}
	return list
}

func (s *Servers) names(ctx context.Context, options structs.QueryOptions) (*Answer, error) {
	resp, err := rpc.Call(ctx, s.Caller, structs.ServiceList, &structs.QueryRequest{QueryOptions: options})
	if err != nil {
		return nil, err
	}
	list := []*ServiceName{}
	for _, space := range resp.Services {
		for _, stub := range space.Services {
			list = append(list, &ServiceName{stub.ServiceName, slices.Sorted(slices.Values(stub.Tags))})
		}
	}
	return &Answer{list, resp.Index}, nil
}
