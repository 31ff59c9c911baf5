package ui

import (
	"context"
	"errors"
	"sync"

	"berth/api"
	"berth/api/nodes"
	"berth/api/volumes"
	"berth/structs"
	"berth/ui/actions"
	"berth/ui/pages"
	"berth/ui/views"
)

// mostNodes is how many nodes of a volume its picture asks for their states.
const mostNodes = 16

// namespaceOf returns the namespace of a thing in the address of a view.
func (c *call) namespaceOf() string { return structs.NamespaceOr(c.param("namespace")) }

// id returns the ID in the address of a view.
func (c *call) id() (string, error) {
	id := c.param("id")
	if id == "" || len(id) > structs.MaxName {
		return "", structs.Invalidf("the address of the view has no ID; follow a link of a list")
	}
	return id, nil
}

// showVolume draws the picture of a volume.
func showVolume(c *call) (*content, error) {
	id, err := c.id()
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.ctx()
	defer cancel()

	ns := c.namespaceOf()
	client := c.client(ns)
	v, _, err := volumes.Get(ctx, client, id, nil)
	if err != nil {
		return nil, err
	}

	facts := views.VolumeFacts{Volume: v}
	var nodes nodeFacts
	data := pages.Volume{Command: structs.CommandLine(ns, "volume why", id)}
	data.Faults = readTogether(
		reading{"why it waits", func() (err error) {
			why, _, err := volumes.Why(ctx, client, id, nil)
			if err == nil {
				data.Why = why.Reasons
			}
			return err
		}},
		reading{"its use and its mounts", func() (err error) {
			facts.Usage, err = volumes.Usage(ctx, client, id, nil)
			return err
		}},
		reading{"its snapshots", func() (err error) {
			facts.Snapshots, err = volumes.ListSnapshots(ctx, client, volumes.SnapshotFilter{VolumeID: id})
			return err
		}},
		reading{"its nodes", func() (err error) {
			nodes, err = readNodes(ctx, client, v)
			return err
		}},
	)
	facts.Nodes = nodes.states
	data.Picture = views.NewPicture(facts)
	data.Properties = volumeProperties(v)
	data.Actions = volumeActions(v, nodes)
	return contentOf("Volume "+id, pages.OneVolume(data)), nil
}

// reading is one of several reads of a view.
type reading struct {
	of   string
	read func() error
}

// readTogether reads at the same time, and returns the faults as sentences. The other parts of a view do not
// depend on a part that failed.
func readTogether(all ...reading) (faults []string) {
	errs := make([]error, len(all))
	var reading sync.WaitGroup
	for i, r := range all {
		reading.Go(func() { errs[i] = r.read() })
	}
	reading.Wait()
	for i, err := range errs {
		if err != nil {
			faults = append(faults, all[i].of+": "+err.Error())
		}
	}
	return faults
}

// nodeFacts are those of the nodes of a volume by their IDs.
type nodeFacts struct {
	states map[string]string
	// fenceable has the nodes that are down and that a device of the servers fences.
	fenceable map[string]bool
}

// readNodes reads the facts of some nodes of a volume.
func readNodes(ctx context.Context, client *api.Client, v *structs.CSIVolumeDetail) (nodeFacts, error) {
	states := map[string]string{}
	fenceable := map[string]bool{}
	var faults []error
	for _, c := range v.Claims {
		if states[c.NodeID] != "" || len(states) == mostNodes {
			continue
		}
		n, _, err := nodes.Get(ctx, client, c.NodeID, nil)
		switch {
		case structs.IsKind(err, structs.KindNotFound):
			states[c.NodeID] = "deleted"
		case err != nil:
			faults = append(faults, err)
		default:
			states[c.NodeID] = n.Status
		}
		if states[c.NodeID] == structs.NodeDown {
			fenceable[c.NodeID], err = actions.Fenceable(ctx, client, c.NodeID)
			if err != nil {
				faults = append(faults, err)
			}
		}
		if len(faults) > 0 {
			break // the others would fail in the same way
		}
	}
	return nodeFacts{states, fenceable}, errors.Join(faults...)
}
