package docker

import (
	"context"
	"slices"
	"sync"

	"github.com/moby/moby/client"

	"berth/client/drivers/cgroups"
	"berth/client/drivers/docker/engine"
	"berth/structs"
)

// parent is a cgroup below which a daemon makes the cgroups of guarded containers. The default of a daemon
// depends on its settings.
type parent struct {
	setting        string // as the daemon takes it
	path           string // in a hierarchy
	prefix, suffix string // of the cgroup of a container, around its ID
}

// parents are the parents by the daemon's driver of cgroups.
var parents = map[string]parent{
	"cgroupfs": {setting: "/berth-docker", path: "berth-docker"},
	"systemd": {
		setting: "berth-docker.slice",
		path:    "berth.slice/berth-docker.slice",
		prefix:  "docker-",
		suffix:  ".scope",
	},
}

// placedDaemon puts containers into cgroups that are known before their start, so that a guard can end them
// without their daemon.
//
// placedDaemon has what is known of the cgroups of a daemon. The zero placedDaemon has not answered yet.
type placedDaemon struct {
	mu       sync.Mutex
	answered bool
	driver   string
}

// Note takes the daemon's driver of cgroups from an answer.
func (d *placedDaemon) Note(driver string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered = true
	d.driver = driver
}

// Guardable returns why a guard cannot find all processes of a container by a cgroup: a precondition, or
// unavailable before the daemon has answered once.
func (d *placedDaemon) Guardable() error {
	_, err := d.parent()
	return err
}

func (d *placedDaemon) parent() (parent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, known := parents[d.driver]
	switch {
	case !d.answered:
		return p, structs.Unavailablef("the docker daemon has not answered yet")
	case !known:
		return p, structs.Preconditionf("the docker daemon makes cgroups with %q; use one with cgroupfs or systemd",
			structs.Cut(d.driver, structs.MaxQuoted))
	case p.group("").Empty():
		return p, structs.Preconditionf("this machine has no cgroups")
	}

	return p, nil
}

// GuardOf returns the guard of a container, with driver.TaskConfig's OrderGuard.
func (d *placedDaemon) GuardOf(tell func(*cgroups.Group) error) (containerGuard, error) {
	if tell == nil {
		return containerGuard{}, nil
	}
	p, err := d.parent()
	return containerGuard{p, tell}, err
}

// group returns the cgroup that a container gets at its start.
func (p parent) group(container string) *cgroups.Group {
	return cgroups.Detect().Path(p.path, p.prefix+container+p.suffix)
}

// containerGuard is the guard of a container. The zero containerGuard is none.
type containerGuard struct {
	parent parent
	tell   func(*cgroups.Group) error
}

// Launch makes a container, prepares it and starts it. A guard knows its cgroup before the start.
func (g containerGuard) Launch(
	ctx context.Context, e *engine.Engine, options client.ContainerCreateOptions,
	prepare func(id string) error,
) (id string, err error) {
	options.HostConfig.CgroupParent = g.parent.setting
	id, err = e.Create(ctx, options)
	if err == nil {
		err = prepare(id)
	}

	if err == nil && g.tell != nil {
		err = g.tell(g.parent.group(id))
	}

	if err == nil {
		err = e.StartContainer(ctx, id)
	}

	return id, err
}

// Check rejects a container whose first process is not where its guard looks, unless it has ended meanwhile.
func (g containerGuard) Check(ctx context.Context, e *engine.Engine, c *engine.Container) error {
	if g.tell == nil {
		return nil
	}

	group := g.parent.group(c.ID)
	pids, err := group.PIDs()
	if err != nil || slices.Contains(pids, c.State.Pid) {
		return err
	}

	// It may have ended since the caller looked.
	c, err = e.Inspect(ctx, c.ID)
	if err != nil || !c.State.Running {
		return err
	}

	return structs.Preconditionf("the docker daemon runs container %s outside of the cgroup %s, so no guard "+
		"ends it: use a daemon that runs as root on this machine, or on_node_loss = \"hold\" or \"fence\"",
		structs.ShortID(c.ID), group.Name())
}
