package docker

import (
	"maps"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"berth/client/drivers/driver"
)

// earlierPause starts a pause container of another image, as an earlier agent may have done.
func (n *node) earlierPause(d *Driver, cfg *driver.TaskConfig, image string) (id string) {
	n.t.Helper()
	allocID, _ := splitID(cfg.ID)
	options, err := d.pauses.describe(pauseName(allocID), allocID, cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	options.Config.Image = image
	options.Config.Healthcheck = nil
	id, err = d.engine.Create(n.ctx, options)
	if err == nil {
		err = d.engine.StartContainer(n.ctx, id)
	}
	if err == nil {
		err = d.pauses.await(n.ctx, id, cfg.NamespaceOf())
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

// TestDaemon_ReplacesAPauseContainerOfAnotherImage, and keeps one of the empty image.
func TestDaemon_ReplacesAPauseContainerOfAnotherImage(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	n.Import("hostile:1", `HEALTHCHECK --interval=1s CMD ["/program", "out:healthy"]`)
	in := n.network("ns")
	first := n.member("al", "first", in, "link:/proc/self/ns/net", "trap:0")
	old := n.earlierPause(d, first, "hostile:1")
	n.start(d, first)
	n.awaitIn(first)
	made := n.pauseOf(d, "al")
	if made == old {
		t.Error("the pause container of another image is used")
	}
	second := n.member("al", "second", in, "link:/proc/self/ns/net", "trap:0")
	n.start(d, second)
	n.awaitIn(second)
	if n.pauseOf(d, "al") != made {
		t.Error("the pause container of the empty image is replaced")
	}
	n.destroy(d, first)
	n.destroy(d, second)
	if got := n.names(d); got != "" {
		t.Errorf("left at the end: %s", got)
	}
}

// TestDaemon_ReleasesThePauseContainerBesideOthers: containers that are not of berth, or not of this node,
// have the labels of the allocation.
func TestDaemon_ReleasesThePauseContainerBesideOthers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d, _ := n.agent()
	cfg := n.member("al", "web", n.network("ns"), "trap:0")
	n.start(d, cfg)
	copied := n.inspect(d, cfg).Config.Labels
	foreign := maps.Clone(copied)
	foreign[labelNode] = "n2"
	foreign[labelTask] = "al/foreign"
	others := map[string]map[string]string{
		"by-hand":    {labelDialect: "al"},
		"copy":       copied,
		"foreign-al": foreign, // the name of a container of berth
	}
	for name, labels := range others {
		id, err := d.engine.Create(n.ctx, client.ContainerCreateOptions{
			Name:       name,
			Config:     &container.Config{Image: "program:1", Cmd: []string{"trap:0"}, Labels: labels},
			HostConfig: &container.HostConfig{NetworkMode: "none"},
		})
		if err == nil {
			err = d.engine.StartContainer(n.ctx, id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n.destroy(d, cfg)
	if n.pauseOf(d, "al") != "" {
		t.Error("a container that is not of the allocation keeps its pause container")
	}
	for name := range others {
		if c, err := d.engine.Inspect(n.ctx, name); err != nil || !c.State.Running {
			t.Errorf("the container %s was changed: %v", name, err)
		}
	}
}
