package operator

import (
	"context"
	"net/netip"
	"net/url"

	"berth/api"
	"berth/structs"
	"berth/structs/access"
)

// table has the routes of this area.
var table api.Table

// Routes returns the routes of this area.
func Routes() []*api.Route { return table.Routes() }

// Target names an agent: by the ID of its node, or by the name or ID of its server, or "leader". Without both
// it is the called one.
type Target struct {
	NodeID   string
	ServerID string
}

// values returns the parameters of a target.
func (t Target) values() url.Values {
	v := url.Values{}
	if t.NodeID != "" {
		v.Set("node_id", t.NodeID)
	}
	if t.ServerID != "" {
		v.Set("server_id", t.ServerID)
	}
	return v
}

// at serves a request at the agent that it names: here, or by passing it on.
func at(c *api.Call, here func(api.AgentPlace) (any, error)) (any, error) {
	place, err := c.Agent.Place(c.Param("node_id"), c.Param("server_id"))
	switch {
	case err != nil:
		return nil, err
	case place.Here:
		return here(place)
	case place.NodeID != "":
		return nil, c.ForwardToNode(place.NodeID, structs.NotFoundf("node %s is not at this agent",
			structs.Cut(place.NodeID, structs.MaxQuoted)))
	}
	return nil, api.ForwardToServer(c, place.Server, place.HTTPAddr)
}

// allowDebug returns an error if the route is for callers with a token, and this one has none: access control
// is off, and the agent does not open the route to everybody.
func allowDebug(c *api.Call) error {
	if !api.IsOpen(c) || c.Agent.Debug() {
		return nil
	}
	return structs.Deniedf("without access control everybody who reaches this agent would have this; " +
		"set enable_debug = true in its configuration, or use its operator socket")
}

// allowLog returns an error if a caller without a token may not read a part of the log: one that is not
// public is for those on the machine of the agent. The called agent asks as well as the one that answers,
// because both may be on one machine.
func allowLog(c *api.Call, public bool) error {
	ip, err := netip.ParseAddr(api.Source(c))
	local := err == nil && ip.Unmap().IsLoopback()
	if public || local || !api.IsOpen(c) || c.Agent.Debug() {
		return nil
	}
	return structs.Deniedf("without access control everybody who reaches this agent would have the lines of " +
		"levels debug and trace and the log files; ask on the machine of the agent, " +
		"or set enable_debug = true in its configuration")
}

var host = api.NewEndpoint[*api.HostAnswer](&table, api.Get, "/v1/agent/host", serveHost,
	api.Needs(access.NeedsAgentRead))

func serveHost(c *api.Call) (any, error) {
	return at(c, func(p api.AgentPlace) (any, error) {
		err := allowDebug(c)
		if err != nil {
			return nil, err
		}
		h, err := c.Agent.Host(c.Ctx())
		if err != nil {
			return nil, err
		}
		return &api.HostAnswer{AgentID: p.AgentID, HostData: h}, nil
	})
}

// Host describes the machine of an agent.
func Host(ctx context.Context, c *api.Client, t Target) (*api.HostAnswer, error) {
	return host.Send(ctx, c, api.Request{Query: t.values()})
}
