package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"berth/api"
	"berth/structs"
)

// uuidLength is the length of an ID that is whole.
const uuidLength = 36

// listedBy is the command that lists the things of a sort.
var listedBy = map[string]string{
	"allocation": "alloc status", "evaluation": "eval status", "node": "node status",
	"job": "job status", "volume": "volume status", "plugin": "plugin status",
}

// candidate is something whose ID begins as asked.
type candidate struct{ id, about string }

// resolve finds the one whole ID that begins with prefix. list lists what begins with it.
func resolve(what, prefix string, list func() ([]candidate, error)) (string, error) {
	if len(prefix) == uuidLength {
		return prefix, nil
	}
	found, err := list()
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 0:
		return "", structs.Errorf(structs.KindNotFound, "%s; \"berth %s\" lists them", nothingLike(what, prefix), listedBy[what])
	case 1:
		return found[0].id, nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q may be any of %d %ss:", prefix, len(found), what)
	for _, f := range found {
		if f.id == prefix {
			return prefix, nil
		}
		fmt.Fprintf(&b, "\n  %s  %s", f.id, f.about)
	}
	return "", structs.Errorf(structs.KindInvalid, "%s", b.String())
}

func nothingLike(what, prefix string) string {
	if what == "node" {
		return fmt.Sprintf("no node has the name %q or an ID that begins with it", prefix)
	}
	return fmt.Sprintf("no %s has an ID that begins with %q", what, prefix)
}

func (c *Call) allocID(ctx context.Context, prefix string) (string, error) {
	return resolve("allocation", prefix, func() (found []candidate, err error) {
		allocs, _, err := c.API().Allocations(ctx, &api.Query{Prefix: prefix})
		for _, a := range allocs {
			found = append(found, candidate{a.ID, fmt.Sprintf("%s, %s", a.Name, a.ClientStatus)})
		}
		return found, err
	})
}

func (c *Call) evalID(ctx context.Context, prefix string) (string, error) {
	return resolve("evaluation", prefix, func() (found []candidate, err error) {
		evals, _, err := c.API().Evaluations(ctx, &api.Query{Prefix: prefix})
		for _, e := range evals {
			found = append(found, candidate{e.ID, fmt.Sprintf("of job %s, %s", e.JobID, e.Status)})
		}
		return found, err
	})
}

// nodeID finds a node by its name or by the beginning of its ID. A name that is the beginning of another node's ID is
// ambiguous.
func (c *Call) nodeID(ctx context.Context, prefix string) (string, error) {
	return resolve("node", prefix, func() (found []candidate, err error) {
		named, _, err := c.API().Nodes(ctx, &api.Query{Filter: fmt.Sprintf("Name == %q", prefix)})
		if err != nil {
			return nil, err
		}
		begin, _, err := c.API().Nodes(ctx, &api.Query{Prefix: prefix})
		for _, n := range append(named, begin...) {
			found = append(found, candidate{n.ID, fmt.Sprintf("%s, %s", n.Name, n.Status)})
		}
		return slices.Compact(found), err
	})
}

func (c *Call) jobID(ctx context.Context, prefix string) (string, error) {
	return resolve("job", prefix, func() (found []candidate, err error) {
		jobs, _, err := c.API().Jobs(ctx, &api.Query{Prefix: prefix})
		for _, j := range jobs {
			found = append(found, candidate{j.ID, fmt.Sprintf("%s, %s", j.Type, j.Status)})
		}
		return found, err
	})
}

func (c *Call) volumeID(ctx context.Context, prefix string) (string, error) {
	return resolve("volume", prefix, func() (found []candidate, err error) {
		vols, _, err := c.API().Volumes(ctx, api.VolumeFilter{}, &api.Query{Prefix: prefix})
		for _, v := range vols {
			found = append(found, candidate{v.ID, fmt.Sprintf("of plugin %s, %s", v.PluginID, v.State)})
		}
		return found, err
	})
}

func (c *Call) pluginID(ctx context.Context, prefix string) (string, error) {
	return resolve("plugin", prefix, func() (found []candidate, err error) {
		plugins, _, err := c.API().Plugins(ctx, &api.Query{Prefix: prefix})
		for _, p := range plugins {
			found = append(found, candidate{p.ID, p.Provider})
		}
		return found, err
	})
}
