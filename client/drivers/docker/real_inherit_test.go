package docker

import (
	"slices"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// TestDaemon_ChecksNoHealthInAPluginContainer unless the job asks for it: the check of an image would run with
// all privileges.
func TestDaemon_ChecksNoHealthInAPluginContainer(t *testing.T) {
	n := newNode(t)
	d, _ := n.agent()
	n.Import("checked:1", `HEALTHCHECK --interval=100ms CMD ["/program", "exit:0"]`)
	cfg := n.task("plugin", "ignore")
	cfg.Config["image"] = "checked:1"
	cfg.Privileged = true
	n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	c := n.inspect(d, cfg)
	if h := c.Config.Healthcheck; h == nil || !slices.Equal(h.Test, []string{"NONE"}) || c.State.Health != nil {
		t.Errorf("the check of the health is %+v, its state %+v", h, c.State.Health)
	}
	n.destroy(d, cfg)
	asked := n.task("asked", "ignore")
	asked.Config["image"] = "checked:1"
	asked.Config["healthchecks"] = map[string]any{"test": []any{"/program", "exit:1"}, "interval": "100ms"}
	asked.Privileged = true
	n.start(d, asked)
	n.awaitOutput(asked, "ready\n")
	if h := n.inspect(d, asked).Config.Healthcheck; h == nil || !slices.Contains(h.Test, "exit:1") {
		t.Errorf("the check of the job is %+v", h)
	}
	n.destroy(d, asked)
}

// volumes lists the volumes of the daemon.
func (n *node) volumes() int {
	n.t.Helper()
	api, err := client.New(client.WithHost(n.Endpoint()))
	if err != nil {
		n.t.Fatal(err)
	}
	defer api.Close()
	list, err := api.VolumeList(n.ctx, client.VolumeListOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return len(list.Items)
}

// TestDaemon_RemovesTheVolumesOfAnImage with the container, also after a failed start and in a search for
// containers without a task. A mount of berth has the place of one.
func TestDaemon_RemovesTheVolumesOfAnImage(t *testing.T) {
	n := newNode(t)
	d, stop := n.agent()
	n.Import("volumes:1", "VOLUME /v", "VOLUME /alloc", "VOLUME /secrets")
	cfg := n.task("volumes", "make:/v/file", "make:/alloc/file", "trap:0")
	cfg.Config["image"] = "volumes:1"
	n.start(d, cfg)
	n.awaitOutput(cfg, "ready\n")
	if got := n.volumes(); got != 1 {
		t.Errorf("the daemon has %d volumes, want that of /v", got)
	}
	n.destroy(d, cfg)
	failing := n.task("failing", "trap:0")
	failing.Config["image"] = "volumes:1"
	failing.Config["entrypoint"] = []any{"/missing"}
	if _, err := d.Start(n.ctx, failing); err == nil {
		t.Error("a task without a program starts")
	}
	lost := n.task("lost", "trap:0")
	lost.Config["image"] = "volumes:1"
	n.start(d, lost)
	n.awaitOutput(lost, "ready\n")
	stop()
	n.cfg.GC.Dangling.CreationGrace = time.Nanosecond
	d = n.driver()
	d.searchDangling(n.ctx, d.searchDangling(n.ctx, nil))
	if got := n.volumes(); got != 0 {
		t.Errorf("the daemon has %d volumes after the end of the tasks", got)
	}
	if got := n.names(d); got != "" {
		t.Errorf("left are %s", got)
	}
}
