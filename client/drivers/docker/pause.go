package docker

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/hostconfig"
	"berth/client/drivers/docker/taskconfig"
	"berth/client/drivers/driver"
	"berth/client/machine/netns"
	"berth/internal/backoff"
	"berth/internal/keylock"
	"berth/structs"
)

const (
	// labelPause is the label of a pause container: the ID of its allocation.
	labelPause = "berth.pause"
	// pauseImage is an image without files, which the driver makes. Jobs cannot name it:
	// package taskconfig rejects the name.
	pauseImage = "berth-pause:1"
	// pauseProgram and pauseNamespace are the files that a pause container has.
	pauseProgram   = "/berth"
	pauseNamespace = "/namespace"
	// pausePIDs bounds the threads of a pause container.
	pausePIDs = 64
	// pauseTimeout bounds the wait for its program.
	pauseTimeout = 30 * time.Second
)

// pausePoll paces the looks at a pause container that starts.
var pausePoll = backoff.Backoff{Min: 5 * time.Millisecond, Max: 100 * time.Millisecond}

// joins reports whether a task is in the network namespace of its allocation. As in the dialect, a task with
// a network_mode is in the network that it names.
func joins(cfg *driver.TaskConfig, want *taskconfig.Task) bool {
	return cfg.NamespaceOf() != "" && want.NetworkMode == ""
}

// pauseName is the name of the pause container of an allocation.
func pauseName(allocID string) string { return "berth-pause-" + allocID }

// pauses makes and removes the pause containers of this node.
type pauses struct {
	engine  *engine.Engine
	options *Options
	tasks   *taskSet
	logger  hclog.Logger

	allocs keylock.Map // by allocation: held while its pause container changes
	image  keylock.Map // by name: held while the image of pause containers is made
	tell   sync.Once   // the log has the reason why there are none
}

// ensure returns the ID of the container in the namespace of an allocation, which all its containers
// join. It starts a missing one. No other call for the allocation is in flight.
func (p *pauses) ensure(ctx context.Context, cfg *driver.TaskConfig) (string, error) {
	allocID, _ := splitID(cfg.ID)
	unlock, err := p.allocs.Lock(ctx, cfg.ID, allocID)
	if err != nil {
		return "", err
	}
	defer unlock()

	name := pauseName(allocID)
	// The container may be of an earlier agent, or of a namespace that is no more.
	c, err := p.engine.Inspect(ctx, name)
	if withoutNotFound(err) != nil {
		return "", err
	}
	if err == nil {
		if !p.isPause(c, allocID) {
			return "", structs.Conflictf(
				"docker: the name %s belongs to container %s, which is not of this node; remove it", name, c.ID)
		}

		usable, err := p.isUsable(ctx, c, cfg.NamespaceOf())
		if err != nil {
			return "", err
		}

		if usable {
			return c.ID, nil
		}

		err = removeContainer(ctx, p.engine, c.ID)
		if err != nil {
			return "", err
		}
	}

	id, err := p.start(ctx, name, allocID, cfg)
	if err != nil && id != "" {
		clean, cancel := detached(ctx)
		defer cancel()
		_ = p.engine.Remove(clean, id) // the end of the task removes what is left
	}

	return id, err
}

// isUsable reports whether a pause container is in the namespace and is made of an empty image. One of
// an earlier agent may inherit more.
func (p *pauses) isUsable(ctx context.Context, c *engine.Container, namespace string) (bool, error) {
	if !c.State.Running || !isIn(c.State.Pid, namespace) {
		return false, nil
	}
	image, err := p.engine.Image(ctx, c.Image)
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !image.Empty {
		p.logger.Warn("the image of a pause container is not empty, making the container again",
			"container_id", c.ID, "image_id", c.Image)
	}
	return image.Empty, nil
}

// start starts a pause container and waits until it is in the namespace. After an error a container with
// the ID may be left.
func (p *pauses) start(
	ctx context.Context, name, allocID string, cfg *driver.TaskConfig,
) (id string, err error) {
	image, err := p.ensureImage(ctx)
	if err != nil {
		return "", err
	}

	options, err := p.describe(name, allocID, cfg)
	if err != nil {
		return "", err
	}

	options.Config.Image = image
	id, err = p.engine.Create(ctx, options)
	if err == nil {
		err = p.engine.StartContainer(ctx, id)
	}
	if err == nil {
		err = p.await(ctx, id, cfg.NamespaceOf())
	}

	return id, err
}

// ensureImage returns the ID of the image, which it makes if the daemon does not have it: somebody may
// remove unused images. An image of others may have the name, and a container would run with what it says. So
// such an image loses the name, and the container is made from the ID.
func (p *pauses) ensureImage(ctx context.Context) (id string, err error) {
	unlock, err := p.image.Lock(ctx, "make", pauseImage)
	if err != nil {
		return "", err
	}
	defer unlock()

	image, err := p.engine.Image(ctx, pauseImage)
	if err == nil && !image.Empty {
		p.logger.Warn("the image of pause containers is not the one that the driver made, making it again",
			"image", pauseImage, "image_id", image.ID)
	}

	if isGone(err) || err == nil && !image.Empty {
		err = p.engine.ImportEmpty(ctx, pauseImage)
		if err == nil {
			image, err = p.engine.Image(ctx, pauseImage)
		}
	}

	if err == nil && !image.Empty {
		err = structs.Preconditionf("docker: image %s is not empty, although the driver has just made it; "+
			"a program on this node replaces it", pauseImage)
	}
	if err != nil {
		return "", err
	}

	return image.ID, nil
}

// describe describes a pause container, but for its image. Its program gives the capability up once it
// is in the namespace, and nothing regains it. It has the host name of all containers that join it.
func (p *pauses) describe(
	name, allocID string, cfg *driver.TaskConfig,
) (client.ContainerCreateOptions, error) {
	options := client.ContainerCreateOptions{Name: name}
	hostname := cfg.Network.Hostname
	if hostname == "" {
		var err error
		hostname, err = os.Hostname()
		if err != nil {
			return options, err
		}
	}

	command := p.options.Pause
	options.Config = &container.Config{
		Hostname:   hostname,
		User:       "0:0",
		WorkingDir: "/",
		StopSignal: "SIGTERM",
		// A check of the health would run with the capability of the container.
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		Entrypoint:  append([]string{pauseProgram}, append(slices.Clone(command[1:]), pauseNamespace)...),
		Labels: map[string]string{
			labelNode:        p.options.NodeID,
			labelPause:       allocID,
			labelDialect:     allocID,
			"berth.alloc_id": allocID,
		},
	}

	options.HostConfig = p.hostConfigOf(cfg)
	return options, nil
}

// hostConfigOf gives a pause container its two files and the one capability that it needs.
func (p *pauses) hostConfigOf(cfg *driver.TaskConfig) *container.HostConfig {
	readOnly := func(source, target string) mount.Mount {
		m := hostconfig.Bind(source, target, "")
		m.ReadOnly = true
		return m
	}

	pids := int64(pausePIDs)
	return &container.HostConfig{
		// The daemon takes no path of a namespace. So the program enters it after the start.
		NetworkMode:    "none",
		CapDrop:        []string{taskconfig.AllCapabilities},
		CapAdd:         []string{"sys_admin"}, // the kernel demands it of a process that enters a namespace
		SecurityOpt:    []string{"label=disable", "no-new-privileges"},
		ReadonlyRootfs: true,
		LogConfig:      container.LogConfig{Type: "none"},
		Resources:      container.Resources{PidsLimit: &pids},
		Mounts: []mount.Mount{
			readOnly(p.options.Pause[0], pauseProgram),
			readOnly(cfg.NamespaceOf(), pauseNamespace),
		},
	}
}

// await waits until a pause container is in the namespace.
func (p *pauses) await(ctx context.Context, id, namespace string) error {
	limit, cancel := context.WithTimeout(ctx, pauseTimeout)
	defer cancel()
	for poll := pausePoll; ; {
		c, err := p.engine.Inspect(ctx, id)
		switch {
		case err != nil:
			return err
		case hasEnded(c) && c.State.ExitCode == netns.ExitNoNamespace:
			return structs.Preconditionf("docker: the daemon does not see the network namespace %s: "+
				"its mounts must follow those of the node", namespace)
		case hasEnded(c):
			return structs.Preconditionf("docker: the container that joins the network of the allocation "+
				"ended with exit code %d: %s", c.State.ExitCode, structs.Cut(c.State.Error, maxDescription))
		case isIn(c.State.Pid, namespace):
			return nil
		case !poll.Wait(limit):
			return structs.Timeoutf("docker: container %s does not enter the network namespace %s",
				id, namespace)
		}
	}
}

// isIn reports whether a process is in a network namespace.
func isIn(pid int, namespace string) bool {
	if pid <= 0 {
		return false
	}
	var of, file unix.Stat_t
	// Two files show one namespace if they have one device and one inode.
	err := unix.Stat("/proc/"+strconv.Itoa(pid)+"/ns/net", &of)
	if err == nil {
		err = unix.Stat(namespace, &file)
	}
	return err == nil && of.Dev == file.Dev && of.Ino == file.Ino
}

// checkJoined reports a container that runs outside of the namespace: the daemon has joined it otherwise than
// expected.
func checkJoined(c *engine.Container, namespace string) error {
	if !c.State.Running || isIn(c.State.Pid, namespace) {
		return nil
	}
	return structs.Preconditionf("docker: the daemon did not start the container in the network namespace %s",
		namespace)
}

func (p *pauses) isPause(c *engine.Container, allocID string) bool {
	return c.Config.Labels[labelNode] == p.options.NodeID && c.Config.Labels[labelPause] == allocID
}

// release removes the pause container of an allocation, if there is one and no container needs it. A
// container in the namespace runs on without it, but the daemon does not measure it.
func (p *pauses) release(ctx context.Context, allocID string) error {
	unlock, err := p.allocs.Lock(ctx, "release", allocID)
	if err != nil {
		return err
	}
	defer unlock()

	if p.tasks.wantsAlloc(allocID) {
		return nil
	}

	c, err := p.engine.Inspect(ctx, pauseName(allocID))
	if err != nil {
		return withoutNotFound(err)
	}

	if !p.isPause(c, allocID) {
		return nil
	}

	others, err := p.engine.List(ctx, labelDialect+"="+allocID)
	if err != nil {
		return err
	}

	for _, o := range others { // this agent may not have found their tasks yet
		if p.isTaskOf(o, allocID) && o.State == container.StateRunning {
			return nil
		}
	}

	return removeContainer(ctx, p.engine, c.ID)
}

// isTaskOf reports whether a container runs a task of an allocation on this node. Any container on the
// machine may have such labels, for example one of an image that somebody made from a task's container.
func (p *pauses) isTaskOf(c container.Summary, allocID string) bool {
	id := c.Labels[labelTask]
	of, _ := splitID(id)
	return of == allocID && c.Labels[labelNode] == p.options.NodeID &&
		slices.Contains(c.Names, "/"+containerName(id))
}

// check says why the driver cannot start containers in the network of an allocation, nil if it can.
func (p *pauses) check(i *engine.Info) error {
	// Its capability would not be one over the namespaces of the machine.
	if i.Remaps {
		return errors.New("the docker daemon maps users, or runs without root")
	}
	return checkStatic(p.options.Pause[0])
}

// checkStatic reports a program that needs files besides itself: a pause container has no libraries.
func checkStatic(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically", path)
		}
	}
	return nil
}
