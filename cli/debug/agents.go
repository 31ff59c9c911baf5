package debug

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/api"
	"berth/api/nodes"
	"berth/api/operator"
	"berth/api/show"
	"berth/structs"
)

// maxLog bounds the bytes of the log of one agent.
const maxLog = 256 << 20

// agent is one whose inside is captured.
type agent struct {
	dir    string // in the archive
	target operator.Target
}

// agents returns the agents that the options name.
func (d *collector) agents(ctx context.Context) ([]agent, error) {
	servers, err := d.servers(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := d.nodes(ctx)
	return append(servers, nodes...), err
}

// servers returns the servers that -server-id names. An agent that knows no servers has none.
func (d *collector) servers(ctx context.Context) (all []agent, err error) {
	names := strings.Split(d.call.String("server-id"), ",")
	switch d.call.String("server-id") {
	case "", "none":
		return nil, nil
	case "all":
		members, err := operator.ListMembers(ctx, d.call.API)
		if err != nil {
			d.missing("servers", err)
			return nil, nil
		}
		names = nil
		for _, m := range members.Members {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		all = append(all, agent{
			dir:    d.ownDir("servers", fileName(name)),
			target: operator.Target{ServerID: name},
		})
	}
	return all, nil
}

// nodes returns the nodes that -node-id and -node-class name.
func (d *collector) nodes(ctx context.Context) (all []agent, err error) {
	wanted := d.call.String("node-id")
	if wanted == "" || wanted == "none" {
		return nil, nil
	}
	list, _, err := nodes.List(ctx, d.call.API, &api.Query{AllowStale: true})
	if err != nil {
		d.missing("nodes", err)
		return nil, nil
	}

	prefixes := strings.Split(wanted, ",")
	class := d.call.String("node-class")
	for _, prefix := range prefixes {
		known := func(n *structs.NodeListStub) bool { return isNode(n, prefix) }
		if wanted != "all" && !slices.ContainsFunc(list, known) {
			return nil, structs.NotFoundf("-node-id: there is no node %q; berth node status lists them", prefix)
		}
	}
	list = slices.DeleteFunc(list, func(n *structs.NodeListStub) bool {
		named := slices.ContainsFunc(prefixes, func(prefix string) bool { return isNode(n, prefix) })
		return wanted != "all" && !named || class != "" && n.NodeClass != class
	})
	most := int(d.call.Number("max-nodes"))
	if most > 0 && len(list) > most {
		d.call.Printf("%d of %d nodes are captured (-max-nodes)\n", most, len(list))
		list = list[:most]
	}
	for _, n := range list {
		all = append(all, agent{
			dir:    d.ownDir("nodes", fileName(n.Name)+"-"+show.ShortID(n.ID)),
			target: operator.Target{NodeID: n.ID},
		})
	}
	return all, nil
}

// isNode reports whether a node has a name, or an ID with a prefix.
func isNode(n *structs.NodeListStub, name string) bool {
	return name != "" && (n.Name == name || strings.HasPrefix(n.ID, name))
}

// captureLog follows the log of an agent until ctx ends.
func (d *collector) captureLog(ctx context.Context, a agent) {
	file := filepath.Join(a.dir, "monitor.log")
	o := operator.MonitorOptions{Level: d.call.String("log-level")}
	lines, err := operator.Monitor(ctx, d.call.API, a.target, o)
	if err != nil {
		d.missing(file, err)
		return
	}
	defer func() { _ = lines.Close() }() // it was read
	d.write(file, func(f *os.File) error {
		n, err := io.Copy(f, io.LimitReader(lines, maxLog))
		switch {
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return nil // the time is over
		case err == nil && n == maxLog:
			return structs.Preconditionf("the rest is left out: the file has %d MiB", maxLog>>20)
		case err == nil:
			return structs.Unavailablef("the log ended before the time: the agent has ended, or has started again")
		}
		return err
	})
}

// captureAgent writes the host and the profiles of an agent.
func (d *collector) captureAgent(ctx context.Context, a agent) {
	query := url.Values{"server_id": {a.target.ServerID}, "node_id": {a.target.NodeID}}.Encode()
	d.capture(ctx, a.dir, capture{
		file:   "host",
		path:   "/v1/agent/host",
		query:  query,
		fields: parseFields(hostFields),
	})

	during := d.call.Duration("pprof-duration")
	if during == 0 {
		return
	}
	for _, name := range []string{"profile", "goroutine", "heap"} {
		d.write(filepath.Join(a.dir, name+".pprof"), func(f *os.File) error {
			ctx, cancel := context.WithTimeout(ctx, during+captureTime)
			defer cancel()
			return operator.Profile(ctx, d.call.API, operator.ProfileOptions{
				Target:  a.target,
				Name:    name,
				Seconds: max(int(during.Seconds()), 1),
			}, f)
		})
	}
}

// write writes a file. An empty one is removed after an error: it would look like an answer.
func (d *collector) write(file string, fill func(*os.File) error) {
	f, err := d.create(file)
	if err != nil {
		d.missing(file, err)
		return
	}
	err = fill(f)
	info, statErr := f.Stat()
	err = cmp.Or(err, f.Close())
	if err != nil {
		d.missing(file, err)
	}
	if err != nil && statErr == nil && info.Size() == 0 {
		_ = os.Remove(f.Name()) // it stays empty
		return
	}
	d.has(file)
}
