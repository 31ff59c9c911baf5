// Package network gives an allocation the network that its job asks for: a network namespace for all its
// tasks, attached to the bridge or a network of the node or to nothing, and the files with which the tasks
// resolve names.
//
// A durable record precedes the namespace and each call of a plugin. A namespace outlives the agent. An agent
// that finds a complete record and its namespace goes on with both. It takes an incomplete one down, because
// no task has started in it, and makes another.
package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/client/machine/cni"
	"berth/client/machine/netns"
	"berth/client/store"
	"berth/structs"
	"berth/structs/validate/field"
)

// Namespaces makes and removes network namespaces. Package netns implements it.
type Namespaces interface {
	Make(path string) error
	IsLive(path string) bool
	Remove(path string) error
}

// Networks attaches namespaces to networks. cni.Networks implements it.
type Networks interface {
	Plan(mode string, ports []structs.AllocatedPort) (*cni.Attachment, error)
	Attach(ctx context.Context, t cni.Target, a *cni.Attachment, save func() error) (
		*structs.AllocNetworkStatus, error)
	Detach(ctx context.Context, t cni.Target, a *cni.Attachment) error
}

// Config is what the hooks of all allocations share.
type Config struct {
	DB         *store.DB
	Dir        string // holds a directory with the files of each allocation
	Namespaces Namespaces
	Networks   Networks
	Logger     hclog.Logger
}

// record is the network of an allocation in the node's store.
type record struct {
	// Attachment is nil for a namespace without a network.
	Attachment *cni.Attachment `codec:",omitempty"`
	// Status is set once the network is complete.
	Status *structs.AllocNetworkStatus `codec:",omitempty"`
}

var records = store.NewTable[record]("alloc_networks")

// network is the hook of one allocation.
type network struct {
	owner
	want *structs.NetworkResource
	env  *hooks.AllocEnv
}

// New makes the hook of an allocation. It is nil for an allocation with the network of the node.
func New(cfg Config, env *hooks.AllocEnv) hooks.Alloc {
	want := env.Group.Network()
	if want == nil || !want.Isolated() && want.DNS.IsEmpty() {
		return nil
	}
	n := &network{
		owner: ownerOf(cfg, env.Alloc.ID),
		want:  want,
		env:   env,
	}
	// Without its record, remove goes by these two.
	n.mode = want.Mode
	n.ports = env.Alloc.Ports
	n.announce()
	return n
}

// announce tells the environment of a complete network of an earlier agent, because tasks that run may offer
// services with its address before Up.
func (n *network) announce() {
	rec, err := records.Get(n.cfg.DB, n.id)
	if err != nil || rec == nil || rec.Status == nil { // Up reports the error
		return
	}
	// Up adds the namespace and the files.
	known := &hooks.Network{Status: rec.Status}
	known.Address = rec.Status.Address
	n.env.SetNetwork(known)
}

func (*network) Name() string { return "network" }

// Up makes the network, or finds an earlier agent's.
func (n *network) Up(ctx context.Context, env *hooks.AllocEnv) error {
	made := &hooks.Network{}
	// In the network of the node only the job has settings.
	made.DNS = n.settingsOf(nil)
	if n.want.Isolated() {
		status, err := n.find()
		if err == nil && status == nil {
			status, err = n.make(ctx)
		}
		if err != nil {
			return err
		}

		made.Namespace = n.path
		made.Address = status.Address
		made.Hostname = env.Expand(n.want.Hostname)
		made.Status = status
		made.DNS = n.settingsOf(status.DNS)
		// Only now its placeholders are replaced.
		if made.Hostname != "" && !field.IsDomain(made.Hostname) {
			return structs.Invalidf("network: hostname %q is not the name of a host",
				structs.Cut(made.Hostname, structs.MaxQuoted))
		}
	}

	err := n.addFiles(&made.Network)
	if err != nil {
		return err
	}

	env.SetNetwork(made)
	return nil
}

// find returns the status of a complete network of an earlier Up, nil if there is none. It does not replace
// the network of tasks that run.
func (n *network) find() (*structs.AllocNetworkStatus, error) {
	rec, err := records.Get(n.cfg.DB, n.id)
	if err != nil || rec == nil || rec.Status == nil {
		return nil, err
	}
	// A reboot ends the namespace and leaves the record.
	if n.cfg.Namespaces.IsLive(n.path) {
		return rec.Status, nil
	}
	if n.env.Running() {
		return nil, structs.Preconditionf("the network namespace %s of the running tasks is gone; "+
			"restart the allocation", n.path)
	}
	return nil, nil
}

// make makes the network, after it has taken down the part that is there.
func (n *network) make(ctx context.Context) (*structs.AllocNetworkStatus, error) {
	err := n.remove(ctx)
	if err != nil {
		return nil, err
	}

	rec := &record{}
	if n.mode != structs.NetworkModeNone {
		rec.Attachment, err = n.cfg.Networks.Plan(n.mode, n.ports)
		if err != nil {
			return nil, err
		}
	}

	// Attach calls it after each plugin, so that remove finds all that was done.
	save := func() error { return records.Put(n.cfg.DB, n.id, rec) }
	err = save()
	if err == nil {
		err = n.cfg.Namespaces.Make(n.path)
	}
	if err != nil {
		return nil, err
	}

	// A namespace without a network has only the loopback interface.
	status := &structs.AllocNetworkStatus{InterfaceName: "lo"}
	if rec.Attachment != nil {
		status, err = n.cfg.Networks.Attach(ctx, n.target(), rec.Attachment, save)
		if err != nil {
			return nil, err
		}
	}

	// The status marks the record as complete.
	rec.Status = status
	return status, save()
}

// Down takes the network down.
func (n *network) Down(ctx context.Context) error {
	n.env.SetNetwork(nil)
	return n.remove(ctx)
}

// owner takes the network of an allocation down.
type owner struct {
	cfg  Config
	id   string // of the allocation
	path string // of the namespace
	dir  string // of the files
	// mode and ports come from the job, "" if it is not known. They matter only if the record is lost.
	mode  string
	ports []structs.AllocatedPort
}

// ownerOf needs no job, so that the network of an unknown allocation can be taken down.
func ownerOf(cfg Config, id string) owner {
	return owner{
		cfg:  cfg,
		id:   id,
		path: netns.Path(id),
		dir:  filepath.Join(cfg.Dir, id),
	}
}

func (o *owner) target() cni.Target {
	return cni.Target{ID: o.id, Namespace: o.path}
}

// remove takes down all that is there of a network, the record last.
func (o *owner) remove(ctx context.Context) error {
	rec, err := records.Get(o.cfg.DB, o.id)
	if err != nil {
		return err
	}

	if rec == nil {
		rec, err = o.guess()
		if err != nil {
			return err
		}
	}

	if rec.Status != nil { // from now on it is incomplete
		rec.Status = nil
		err = records.Put(o.cfg.DB, o.id, rec)
		if err != nil {
			return err
		}
	}

	if rec.Attachment != nil {
		err = o.cfg.Networks.Detach(ctx, o.target(), rec.Attachment)
		if err != nil {
			return err
		}
	}

	// The namespace goes after the plugins have undone their work in it.
	err = o.cfg.Namespaces.Remove(o.path)
	if err == nil {
		err = os.RemoveAll(o.dir)
	}
	if err == nil {
		err = records.Delete(o.cfg.DB, o.id)
	}

	return err
}

// guess returns a record in the place of a lost one: a namespace is there, and it may be attached.
func (o *owner) guess() (*record, error) {
	attaches := o.mode == structs.NetworkModeBridge || strings.HasPrefix(o.mode, structs.NetworkModeCNI)
	if !attaches || !o.cfg.Namespaces.IsLive(o.path) {
		return &record{}, nil
	}
	// The configuration may be another one by now.
	a, err := o.cfg.Networks.Plan(o.mode, o.ports)
	return &record{Attachment: a}, err
}

// RemoveUnknown takes down the networks in the store whose allocations are not known. It calls known after it
// has read the networks.
func RemoveUnknown(ctx context.Context, cfg Config, known func() (map[string]bool, error)) error {
	all, err := records.All(cfg.DB, "")
	if err != nil || len(all) == 0 {
		return err
	}

	allocs, err := known()
	// An allocation whose record cannot be read may still have tasks in its network.
	if err != nil {
		cfg.Logger.Warn("failed to read all allocations, keeping networks of deleted ones", "error", err)
		return nil
	}

	for _, r := range all {
		if allocs[r.Key] {
			continue
		}

		cfg.Logger.Warn("removing the network of a deleted allocation", "alloc_id", r.Key)
		// The record is there, so the mode and the ports are not needed.
		o := ownerOf(cfg, r.Key)
		removeErr := o.remove(ctx)
		if removeErr != nil {
			err = errors.Join(err, fmt.Errorf("the network of allocation %s: %w", r.Key, removeErr))
		}
	}

	return err
}
